//! The program's surface: exit codes, documents, flags (cli.md). Semantics are tested below, in the library and the
//! suite; here are only the contracts that scripts rely on.

mod chat;
mod check;
mod choose;
mod explain;
mod inspect;
mod models;
mod pictures;
mod plan;
mod record;
mod references;
mod references_api;
mod references_git;
mod references_use;
mod replay;
mod run;
mod sandbox;
mod shell;
mod skills;
mod skills_use;
mod solve;
mod supervised;
mod test;
mod tools;
mod themes;
mod watch;

use crate::support::project::Project;

/// A workflow without a model: a text in, its length out.
pub(crate) const ECHO: &str = "\
agent: echo
description: Says what was said
inputs: UserInput
config: {mark: '!'}
types:
  Echo: {text: string, length: integer}
actions:
  echo:
    description: Say it again
    inputs: UserInput
    output: Echo
    set: {text: '{{ user_input.content }}{{ config.mark }}', length: '{{ user_input.content | length }}'}
    achieves: It was said again
";

/// A workflow with one call of a model.
pub(crate) const ASK: &str = "\
agent: ask
description: Asks a model
inputs: UserInput
types:
  Answer: {text: string}
actions:
  answer:
    description: Ask
    inputs: UserInput
    output: Answer
    prompt: 'Answer this: {{ user_input.content }}'
    achieves: There is an answer
";

/// A script whose model always answers.
pub(crate) const ANSWERS: &str = "\
replies:
  - when: {action: answer}
    reply: {text: Forty-two}
    usage: {input_tokens: 10, output_tokens: 5}
";

/// A project with both workflows and the script.
pub(crate) fn project() -> Project {
    Project::new()
        .file("agent-run.yaml", "project: {name: test}\nmodels: {default: demo/any}\nproviders: {demo: {kind: scripted, file: script.yaml}}\n")
        .file("script.yaml", ANSWERS)
        .file("workflows/echo.yaml", ECHO)
        .file("workflows/ask.yaml", ASK)
}
