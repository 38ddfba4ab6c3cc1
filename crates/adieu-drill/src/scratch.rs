//! The directory for the drill's own files, which is also `{dir}`.

use std::env;

use tempfile::TempDir;

use crate::error::DrillError;

/// An empty one, which goes when it is dropped.
pub(crate) fn directory() -> Result<TempDir, DrillError> {
    let made = tempfile::Builder::new().prefix("adieu-drill-").tempdir();
    made.map_err(|error| {
        // The error of the library names the directory that it could not make; this is the one to change.
        let cause = error
            .raw_os_error()
            .map_or_else(|| error.to_string(), |code| std::io::Error::from_raw_os_error(code).to_string());
        DrillError::Usage(format!(
            "no directory for the drill's own files can be made in {}: {cause}; set TMPDIR to a directory that can be written to",
            env::temp_dir().display()
        ))
    })
}
