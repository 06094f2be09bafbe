//! Which files `libi run` stages.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use libi::{Staging, StagingError};

use super::{RunArgs, parts};
use crate::output::CliError;

/// The files of the command line; `None` without any.
pub(super) fn staging(arguments: &RunArgs) -> Result<Option<Staging>, CliError> {
    let unusable = |error: StagingError| CliError::Usage(format!("--stage: {error}"));
    let mut staging = Staging::new();
    // Programs first: they are waited for.
    if arguments.stage_program || arguments.stage_libraries && arguments.stage.is_empty() {
        for program in parts::programs(arguments)? {
            staging = staging.file(found(&program)?).map_err(unusable)?;
        }
    }
    for file in &arguments.stage {
        staging = staging.file(file).map_err(unusable)?;
    }
    if arguments.stage_libraries {
        staging = staging.with_libraries().map_err(unusable)?;
    }
    if arguments.keep_staged {
        staging = staging.keep();
    }
    Ok((!staging.is_empty()).then_some(staging))
}

/// The file of a program, as this machine finds it.
fn found(program: &OsStr) -> Result<PathBuf, CliError> {
    let path = Path::new(program);
    if path.components().count() > 1 || program.to_string_lossy().contains('/') {
        return Ok(path.to_owned());
    }
    let search = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&search).map(|place| place.join(path));
    let missing = || CliError::Usage(format!("--stage-program: {} is not in PATH", path.display()));
    places.find(|file| file.is_file()).ok_or_else(missing)
}
