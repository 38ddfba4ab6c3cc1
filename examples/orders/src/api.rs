//! The HTTP API.

use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use tracing::{error, warn};

use crate::store::{Order, Store};

/// What every handler can reach.
#[derive(Clone)]
pub(crate) struct Shop {
    pub(crate) store: Store,
    pub(crate) client: reqwest::Client,
    pub(crate) notify: Option<String>,
}

pub(crate) fn router(shop: Shop) -> Router {
    Router::new()
        .route("/orders", get(list).post(create))
        .route("/hold", post(hold))
        .with_state(shop)
}

#[derive(Deserialize)]
struct NewOrder {
    item: String,
}

#[derive(Deserialize)]
struct Delay {
    /// How long the transaction takes, in milliseconds.
    #[serde(default)]
    ms: u64,
}

async fn create(
    State(shop): State<Shop>,
    Query(delay): Query<Delay>,
    Json(order): Json<NewOrder>,
) -> Result<(StatusCode, Json<Order>), Problem> {
    let delay = Duration::from_millis(delay.ms);
    let order = shop.store.create(order.item, delay).await?;
    if let Some(url) = &shop.notify {
        // The order is safe even if the notification fails.
        if let Err(error) = shop.client.post(url).json(&order).send().await {
            warn!("order {}: the notification failed: {error}", order.id);
        }
    }
    Ok((StatusCode::CREATED, Json(order)))
}

async fn list(State(shop): State<Shop>) -> Result<Json<Vec<Order>>, Problem> {
    Ok(Json(shop.store.list().await?))
}

/// The bug that hangs other services at the stop, on demand.
async fn hold(State(shop): State<Shop>) -> Result<&'static str, Problem> {
    shop.store.hold().await?;
    Ok("held forever\n")
}

/// The database did not do what it should; the client sees no more than that.
struct Problem(sqlx::Error);

impl From<sqlx::Error> for Problem {
    fn from(error: sqlx::Error) -> Self {
        Self(error)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        error!("database: {}", self.0);
        (StatusCode::INTERNAL_SERVER_ERROR, "database error\n").into_response()
    }
}
