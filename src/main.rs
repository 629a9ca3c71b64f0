//! The `agent-run` command.

fn main() -> std::process::ExitCode {
    agent_run::cli::main()
}
