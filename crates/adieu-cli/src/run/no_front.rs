//! `--front`, where there is none: `adieu-init` forwards no requests.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use adieu::App;
use rustix::process::Rlimit;

use super::address::Address;

#[derive(Clone, Debug)]
pub(super) struct FrontOptions(Infallible);

pub(super) struct Front(Infallible);

pub(super) struct Upstream(Infallible);

impl FrontOptions {
    pub(super) fn parse(
        address: Option<&str>,
        headers: Option<&str>,
        _: &[OsString],
    ) -> Result<Option<Self>, String> {
        match address.or(headers) {
            Some(_) => Err("--front: adieu-init forwards no requests; use `adieu run --front`, of the whole `adieu`".to_owned()),
            None => Ok(None),
        }
    }

    pub(super) const fn address(&self) -> &Address {
        match self.0 {}
    }
}

impl Front {
    pub(super) fn new(options: FrontOptions) -> Result<Self, String> {
        match options.0 {}
    }

    pub(super) async fn serve(&self, _: &mut App, _: &str) -> Result<(), adieu::Error> {
        match self.0 {}
    }

    pub(super) fn upstream(&self, _: usize, _: u32) -> io::Result<Arc<Upstream>> {
        match self.0 {}
    }

    pub(super) const fn file_limit(&self) -> Rlimit {
        match self.0 {}
    }

    pub(super) fn is_at(&self, _: &str) -> bool {
        match self.0 {}
    }

    pub(super) fn direct_to(&self, _: &Arc<Upstream>) {
        match self.0 {}
    }

    pub(super) fn withdraw(&self, _: &Arc<Upstream>) {
        match self.0 {}
    }

    pub(super) fn stop_waiting(&self) {
        match self.0 {}
    }

    pub(super) async fn drained(&self, _: Duration) {
        match self.0 {}
    }
}

impl Upstream {
    pub(super) fn words(&self, _: &[OsString]) -> Vec<OsString> {
        match self.0 {}
    }

    pub(super) fn place(&self) -> Result<&Path, u16> {
        match self.0 {}
    }

    pub(super) fn is_accepted_on(&self, _: u32) -> bool {
        match self.0 {}
    }

    pub(super) async fn retire(&self, _: Duration) {
        match self.0 {}
    }
}
