//! The `agent-run` command.

/// Lines of journals are allocated by the threads that run processes and freed by the store's, which the system's
/// allocator pays for with locks.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    agent_run::cli::main()
}
