//! What cargo knows of the workspace and its dependencies: the few fields that the steps read.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::checkout::Checkout;
use crate::command;
use crate::step::Failure;

#[derive(Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) license: Option<String>,
    /// None for a package that lies in a directory.
    pub(crate) source: Option<String>,
    pub(crate) features: BTreeMap<String, Vec<String>>,
}

/// The packages of this workspace.
pub(crate) fn members(checkout: &Checkout) -> Result<Vec<Package>, Failure> {
    read(checkout, "--no-deps")
}

/// The packages of this workspace, with the fields that a chore of its own needs.
pub(crate) fn members_as<T: DeserializeOwned>(checkout: &Checkout) -> Result<Vec<T>, Failure> {
    read(checkout, "--no-deps")
}

/// Those and everything they depend on, on any platform, with any feature.
pub(crate) fn all(checkout: &Checkout) -> Result<Vec<Package>, Failure> {
    read(checkout, "--all-features")
}

fn read<T: DeserializeOwned>(checkout: &Checkout, scope: &str) -> Result<Vec<T>, Failure> {
    #[derive(Deserialize)]
    struct Metadata<T> {
        packages: Vec<T>,
    }

    let words = ["metadata", "--quiet", "--format-version", "1", scope];
    let answer = command::ask(&mut checkout.cargo(words))?;
    let metadata: Metadata<T> = serde_json::from_slice(&answer).map_err(|error| {
        Failure::new(format!("cannot read the output of cargo metadata: {error}"))
    })?;
    Ok(metadata.packages)
}
