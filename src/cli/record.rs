//! `run --record FILE`: what models are asked and answer, written as a script that `--replay` plays again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::engine::RunOptions;
use crate::llm::Recorder;
use crate::program::Program;

use super::{Fault, Out};

/// A recording that is under way.
pub(super) struct Recording {
    file: PathBuf,
    recorder: Arc<Recorder>,
}

/// Puts a recorder between the run and its models. That the file can be written is found out now, not after a long run.
pub(super) fn begin(file: &Path, program: &Program, options: &mut RunOptions) -> Result<Recording, Fault> {
    std::fs::OpenOptions::new().create(true).append(true).open(file).map_err(|error| cannot(file, &error))?;
    let secrets = program.providers.values().flat_map(|provider| {
        let headers = provider.headers.values().map(|header| header.expose().to_owned());
        provider.api_key.iter().map(|key| key.expose().to_owned()).chain(headers).collect::<Vec<_>>()
    });
    let recorder = Recorder::new(secrets);
    let wrap = recorder.clone();
    options.wrap_llm = Some(Arc::new(move |llm| wrap.wrap(llm)));
    Ok(Recording { file: file.to_owned(), recorder })
}

impl Recording {
    /// Writes the recording, whatever became of the run.
    pub(super) fn write(&self, agent: &str, out: &Out) -> Result<(), Fault> {
        let name = self.file.display();
        let body = serde_yaml::to_string(&self.recorder.script())
            .map_err(|error| Fault::failed(format!("the recording is no YAML: {error}")))?;
        let head = format!(
            "# A recording of the agent {agent}: a script with the digest of each request. `--replay {name}` plays it again; `hash` and\n\
             # `request` may be taken out to answer other requests too.\n"
        );
        std::fs::write(&self.file, head + &body).map_err(|error| cannot(&self.file, &error))?;
        let calls = self.recorder.len();
        out.note(format!("recorded {calls} call{} in {name}", if calls == 1 { "" } else { "s" }));
        Ok(())
    }
}

fn cannot(file: &Path, error: &std::io::Error) -> Fault {
    Fault::wrong(format!("`--record {}` cannot be written: {error}", file.display()))
}
