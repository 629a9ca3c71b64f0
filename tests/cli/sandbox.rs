//! Programs of `exec` in their sandbox: real ones, confined by this program's own hidden verb.

#![allow(clippy::print_stderr, reason = "what is skipped is said")]

use std::net::TcpListener;
use std::path::PathBuf;

use serde_json::json;

use crate::support::project::{Output, Project};

/// A project whose one action runs a shell script, with these permissions.
fn project(script: &str, permissions: &str) -> Project {
    let command = json!(["sh", "-c", script]);
    Project::new()
        .file("agent-run.yaml", format!("project: {{name: test}}\npermissions: {permissions}\n"))
        .file(
            "workflows/shell.yaml",
            format!(
                "agent: shell\ndescription: Runs a script\ninputs: UserInput\ntypes: {{Text: string}}\nactions:\n  \
                 script:\n    description: Run it\n    inputs: UserInput\n    output: Text\n    exec: {{command: {command}, \
                 expect: text, timeout: 20s}}\n    achieves: It has run\n"
            ),
        )
}

/// What the run gave, unless nothing confines programs here.
fn run(project: &Project) -> Option<Output> {
    let output = project.run(&["run", "workflows/shell.yaml", "--json", "go"]);
    if output.stderr.contains("programs run without a sandbox") {
        eprintln!("SKIPPED: nothing confines programs here: {}", output.stderr);
        return None;
    }
    Some(output)
}

/// A place of this test's own that is neither in the project nor temporary: a clone of the repository may lie in a temporary directory
/// itself, which the sandbox leaves open, and then it is one at home.
fn outside() -> Option<tempfile::TempDir> {
    let built = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let open = ["/tmp", "/var/tmp", "/dev/shm"];
    let place = [Some(built), home].into_iter().flatten().find(|place| !open.iter().any(|dir| place.starts_with(dir)));
    let dir = place.and_then(|place| tempfile::tempdir_in(place).ok());
    if dir.is_none() {
        eprintln!("SKIPPED: there is no place but temporary ones to write to");
    }
    dir
}

#[test]
fn a_program_writes_its_directory_and_temporary_files_and_nothing_else() {
    let Some(dir) = outside() else { return };
    let (file, secret) = (dir.path().join("written"), dir.path().join("secret"));
    std::fs::write(&secret, "hidden").expect("a file");
    let script = format!(
        "echo in > here.txt && cat here.txt; echo t > \"/tmp/$$.agent-run-test\" && rm \"/tmp/$$.agent-run-test\" && echo tmp; \
         (echo x > {file}) 2>/dev/null && echo wrote; cat {secret} 2>/dev/null && echo read; echo end",
        file = file.display(),
        secret = secret.display()
    );
    let project = project(&script, "{allow: [exec]}");
    let Some(output) = run(&project) else { return };
    let output = output.exits(0);
    assert_eq!(output.json()["output"]["value"], "in\ntmp\nend", "{output}");
    assert!(!file.exists());
    assert_eq!(project.read("here.txt"), "in\n");
}

#[test]
fn a_script_of_a_skill_does_not_write_its_skill() {
    let Some(dir) = outside() else { return };
    let script = "(echo x > mine.txt) 2>/dev/null && echo wrote; (echo x > ../SKILL.md) 2>/dev/null && echo changed; cat SKILL.md | tail -1; \
                  echo t > \"/tmp/$$.agent-run-test\" && rm \"/tmp/$$.agent-run-test\" && echo tmp\n";
    for (path, text) in [
        ("agent-run.yaml", "permissions: {allow: [exec, files:read]}\nmodels: {default: openai/gpt-4.1-mini}\n"),
        ("skills/count/SKILL.md", "---\nname: count\ndescription: Counts.\n---\nCount.\n"),
        ("skills/count/scripts/count.sh", script),
        (
            "workflows/a.yaml",
            "agent: a\ninputs: UserInput\ntypes: {Answer: {text: string}}\nreferences: {know: {skills: skills}}\nactions:\n  \
             answer: {inputs: UserInput, output: Answer, references: know, prompt: Hello, achieves: Done}\n",
        ),
    ] {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("directories are made");
        std::fs::write(path, text).expect("a file");
    }
    let arguments = json!({"name": "count", "script": "count.sh"}).to_string();
    let mut command = std::process::Command::new(crate::support::project::program());
    command.args(["tools", "call", "workflows/a.yaml", "know_run_script", &arguments]).current_dir(dir.path());
    let output =
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).output().expect("it runs");
    let (said, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if told.contains("programs run without a sandbox") {
        eprintln!("SKIPPED: nothing confines programs here: {told}");
        return;
    }
    assert_eq!(said.trim(), "Count.\ntmp", "{told}");
    assert!(!dir.path().join("skills/count/mine.txt").exists());
}

#[test]
fn the_network_is_there_only_where_internet_is_allowed() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let script = format!("bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}' 2>/dev/null && echo connected || echo refused");
    if !PathBuf::from("/bin/bash").exists() {
        eprintln!("SKIPPED: there is no bash to connect with");
        return;
    }
    for (permissions, expected) in [
        ("{allow: [exec]}", "refused"),
        ("{allow: [exec, internet], deny: [\"internet:sh\"]}", "refused"),
        ("{allow: [exec, internet]}", "connected"),
    ] {
        let Some(output) = run(&project(&script, permissions)) else { return };
        assert_eq!(output.exits(0).json()["output"]["value"], expected, "{permissions}");
    }
}

#[test]
fn a_program_does_not_see_the_environment_of_agent_run() {
    let project =
        project("env; cat /proc/$PPID/environ | tr '\\0' '\\n'; echo end", "{allow: [exec]}").env("API_KEY", "sk-1");
    let Some(output) = run(&project) else { return };
    let output = output.exits(0);
    let text = output.json()["output"]["value"].as_str().unwrap_or_default().to_owned();
    assert!(text.contains("PATH=") && text.ends_with("end"), "{output}");
    assert!(!text.contains("sk-1"), "{output}");
}

#[test]
fn what_runs_too_long_is_killed_with_all_that_it_started() {
    let project = project("sleep 1000 & echo $! > child.pid; wait", "{allow: [exec]}");
    let text = project.read("workflows/shell.yaml").replace("timeout: 20s", "timeout: 2s");
    project.write("workflows/shell.yaml", text);
    let Some(output) = run(&project) else { return };
    let output = output.exits(1);
    let failure = &output.json()["failure"];
    assert_eq!(failure["kind"], "timeout", "{output}");
    let id = project.read("child.pid").trim().to_owned();
    let gone = || match std::fs::read_to_string(format!("/proc/{id}/stat")) {
        Ok(stat) => stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with(['Z', 'X'])),
        Err(_) => true,
    };
    let started = std::time::Instant::now();
    while !gone() {
        assert!(started.elapsed().as_secs() < 20, "the child outlived the program");
        std::thread::yield_now();
    }
}

#[test]
fn what_a_program_says_reaches_the_person_through_the_sandbox() {
    let Some(output) = run(&project("echo broken >&2; exit 3", "{allow: [exec]}")) else { return };
    assert_eq!(output.exits(1).json()["failure"]["message"], "`sh` ended with status 3: broken");
    let missing = project("", "{allow: [exec]}");
    let text = missing.read("workflows/shell.yaml").replace("[\"sh\",\"-c\",\"\"]", "[no-such-program]");
    missing.write("workflows/shell.yaml", text);
    let Some(output) = run(&missing) else { return };
    let message = output.exits(1).json()["failure"]["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.contains("no program `no-such-program`"), "{message}");
}

#[test]
fn the_hidden_verb_is_no_command_of_its_own() {
    let output = Project::new().run(&["__sandbox", "nonsense"]).exits(126);
    assert!(output.stderr.contains("agent-run's own use"), "{output}");
}
