//! Plugins that are compiled here, right and broken, and the survey of what the runtime makes of them.

use crate::context::Context;
use crate::folder::Folder;
use crate::outcome::{Checked, Stop};
use crate::program::{Ended, Launch};
use llaisys_runtime_core::Status;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The source of every plugin, and of one whose constructor uses the runtime.
const SOURCES: [(&str, &str); 2] = [
    ("plugin.c", include_str!("../plugins/plugin.c")),
    ("constructor.c", include_str!("../plugins/constructor.c")),
];

/// Compiles plugins into a folder of the case's own.
pub struct Workshop {
    /// The folder.
    pub folder: Folder,
    context: &'static Context,
}

impl Workshop {
    /// An empty one.
    pub fn new(context: &'static Context) -> Checked<Workshop> {
        Workshop::within(context, Folder::new("plugins")?)
    }

    /// An empty one in this folder.
    pub fn within(context: &'static Context, folder: Folder) -> Checked<Workshop> {
        for (name, text) in SOURCES {
            folder.write(name, text.as_bytes())?;
        }
        Ok(Workshop { folder, context })
    }

    /// Compiles a plugin into `file`, with the macros of the source defined as given, for example
    /// `NAME="alpha"`.
    pub fn plugin(&self, file: &str, defines: &[&str]) -> Checked<PathBuf> {
        self.compile(file, &self.folder.file("plugin.c"), defines, &[])
    }

    /// Compiles a shared library.
    pub fn compile(
        &self,
        file: &str,
        source: &Path,
        defines: &[&str],
        libraries: &[&Path],
    ) -> Checked<PathBuf> {
        let path = self.folder.file(file);
        let mut command = Command::new("cc");
        command.args(["-shared", "-fPIC", "-O1", "-fvisibility=hidden", "-Wl,-z,defs", "-o"]);
        command.arg(&path).arg(source);
        command.arg("-I").arg(&self.context.setup.include);
        command.args(defines.iter().map(|define| format!("-D{define}"))).args(libraries);
        let output =
            command.output().map_err(|error| Stop::skip(format!("cc does not start: {error}")))?;
        ensure!(
            output.status.success(),
            "cc does not accept the plugin ({defines:?}): {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(path)
    }

    /// A program with an environment that names no backends.
    pub fn launch(&self, program: &str) -> Launch {
        self.context.program(program).alone()
    }

    /// Surveys what the runtime makes of this environment.
    pub fn survey(&self, launch: Launch, commands: &[&str]) -> Checked<Survey> {
        let launch = commands.iter().fold(launch, |launch, command| launch.argument(command));
        Survey::read(launch.run()?)
    }
}

/// The answers of the program `survey`, one for each command.
#[derive(Debug)]
pub struct Survey(Vec<Value>);

impl Survey {
    /// Reads what a survey printed.
    pub fn read(ended: Ended) -> Checked<Survey> {
        ended.expect_success()?;
        let answers = serde_json::from_str(ended.stdout.trim());
        let answers = answers.map_err(|error| {
            Stop::fail(format!("the survey is unreadable ({error}): {ended:?}"))
        })?;
        Ok(Survey(answers))
    }

    /// The answer to a command.
    pub fn answer(&self, index: usize) -> Checked<&Value> {
        self.0.get(index).ok_or_else(|| Stop::fail(format!("no answer {index} in {self:?}")))
    }

    /// Fails unless a command was answered with this status and a message that contains the words.
    pub fn expect(&self, index: usize, status: Status, words: &str) -> Checked {
        let answer = self.answer(index)?;
        let code = answer["code"].as_i64().unwrap_or(-1);
        ensure!(
            code == i64::from(status.code()),
            "command {index}: expected {} ({}), found {answer}",
            status.name(),
            status.code()
        );
        let message = answer["message"].as_str().unwrap_or_default();
        ensure!(message.contains(words), "command {index}: expected {words:?}, found {message:?}");
        Ok(())
    }

    /// A number of an answer.
    pub fn number(&self, index: usize, field: &str) -> Checked<i64> {
        let answer = self.answer(index)?;
        answer[field].as_i64().ok_or_else(|| Stop::fail(format!("no {field} in {answer}")))
    }

    /// The candidates of a `candidates` command, without those that are built in.
    pub fn candidates(&self, index: usize) -> Checked<Vec<Value>> {
        let all = self.answer(index)?.as_array().cloned().unwrap_or_default();
        Ok(all.into_iter().filter(|one| one["path"] != "").collect())
    }

    /// Fails unless the CPU works.
    pub fn expect_cpu(&self, index: usize) -> Checked {
        let answer = self.answer(index)?;
        ensure!(answer["code"] == 0, "expected the CPU to work, found {answer}");
        Ok(())
    }
}
