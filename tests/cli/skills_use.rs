//! Skills of a project on disk: what is configured, files that stay in their skill, scripts in the sandbox.

use serde_json::{Value, json};

use crate::support::project::{Output, Project};

const WORKFLOW: &str = "agent: desk
inputs: UserInput
types: {Answer: string}
references:
  know: {skills: .agents/skills}
actions:
  answer: {inputs: UserInput, output: Answer, references: know, prompt: '{{ user_input.content }}'}
goals: {done: {output: Answer}}
";

fn skill(name: &str) -> String {
    format!("---\nname: {name}\ndescription: Does {name}.\n---\nDo {name} well.\n")
}

fn project() -> Project {
    Project::new()
        .file("agent-run.yaml", "models: {default: openai/gpt-4.1-mini}\npermissions: {allow: [files:read, exec]}\n")
        .file("workflows/desk.yaml", WORKFLOW)
        .file(".agents/skills/count/SKILL.md", skill("count"))
        .file(".agents/skills/count/references/guide.md", "Count twice.\n")
        .file(".agents/skills/count/assets/logo.bin", b"\x00\xff\x00")
        .file(".agents/skills/count/scripts/count.sh", "#!/bin/sh\necho \"$# $1\"; cat; echo note >&2; exit 3\n")
        .file(".agents/skills/count/scripts/where.sh", "pwd -P; cat references/guide.md\n")
        .file(".agents/skills/write/SKILL.md", skill("write"))
        .file("secret.txt", "hidden")
}

fn call(project: &Project, tool: &str, arguments: &Value) -> Output {
    project.run(&["tools", "call", "workflows/desk.yaml", tool, &arguments.to_string()])
}

#[test]
fn instructions_name_the_files_which_are_read_and_listed() {
    let project = project();
    let output = call(&project, "know_activate", &json!({"name": "count"})).exits(0);
    for part in ["Do count well.", "<file>references/guide.md</file>", "know_run_script"] {
        assert!(output.stdout.contains(part), "{part}: {output}");
    }
    let output = call(&project, "know_list_resources", &json!({"name": "count"})).exits(0);
    assert!(output.stdout.contains("assets/logo.bin (3 bytes)") && !output.stdout.contains("SKILL.md"), "{output}");
    let output =
        call(&project, "know_read_resource", &json!({"name": "count", "path": "references/guide.md"})).exits(0);
    assert!(output.stdout.contains("Count twice."), "{output}");
    let output = call(&project, "know_activate", &json!({"name": "cuont"})).exits(1);
    assert!(format!("{output}").contains("count"), "{output}");
}

#[test]
fn files_do_not_leave_their_skill() {
    let project = project();
    let read = |path: &str| {
        let output = call(&project, "know_read_resource", &json!({"name": "count", "path": path})).exits(1);
        assert!(!format!("{output}").contains("hidden\n"), "{output}");
        format!("{output}")
    };
    assert!(read("../../../secret.txt").contains("leads out of the skill"));
    assert!(read("../write/SKILL.md").contains("leads out of the skill"));
    assert!(read("assets/logo.bin").contains("binary file of 3 bytes"));
    assert!(read("references/none.md").contains("know_list_resources"));
    std::os::unix::fs::symlink(project.path().join("secret.txt"), project.path().join(".agents/skills/count/link.txt"))
        .expect("a link");
    assert!(read("link.txt").contains("symbolic link"));
}

#[test]
fn a_script_runs_in_its_skill_with_arguments_and_input_and_its_status_is_told() {
    let project = project();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let script = project.path().join(".agents/skills/count/scripts/count.sh");
        std::fs::set_permissions(script, std::fs::Permissions::from_mode(0o755)).expect("it is made executable");
    }
    let arguments = json!({"name": "count", "script": "scripts/count.sh", "args": ["a b; ls", "c"], "input": "fed\n"});
    let output = call(&project, "know_run_script", &arguments).exits(0);
    for part in ["2 a b; ls", "fed", "[error output]", "note", "[it ended with status 3]"] {
        assert!(output.stdout.contains(part), "{part}: {output}");
    }
    // Without a `#!` line the name's ending says what runs it.
    let output = call(&project, "know_run_script", &json!({"name": "count", "script": "where.sh"})).exits(0);
    assert!(output.stdout.contains("skills/count") && output.stdout.contains("Count twice."), "{output}");
    let output = call(&project, "know_run_script", &json!({"name": "count", "script": "../SKILL.md"})).exits(1);
    assert!(format!("{output}").contains("SKILL.md"), "{output}");
}

#[test]
fn a_script_needs_the_permission_exec() {
    let project = project().file("agent-run.yaml", "models: {default: openai/gpt-4.1-mini}\n");
    let arguments = json!({"name": "count", "script": "where.sh"});
    let output = call(&project, "know_run_script", &arguments).exits(1);
    assert!(format!("{output}").contains("`exec`"), "{output}");
    project.write(
        "agent-run.yaml",
        "models: {default: openai/gpt-4.1-mini}\npermissions: {allow: [files:read, 'exec:*count/scripts/*']}\n",
    );
    call(&project, "know_run_script", &arguments).exits(0);
}

#[test]
fn the_skills_of_a_project_are_listed_with_what_is_wrong_of_the_others() {
    let project = project().file(".agents/skills/Odd/SKILL.md", skill("Odd"));
    let output = project.run(&["skills"]).exits(0);
    for part in ["know", "count", "Does count.", "write", "scripts", "Odd"] {
        assert!(output.stdout.contains(part), "{part}: {output}");
    }
    let document = project.run(&["skills", "--json"]).exits(0).json();
    let skills = document["skills"].as_array().expect("a list");
    assert_eq!(skills.len(), 2, "{document:#}");
    assert_eq!(skills[0]["name"], "count");
    assert_eq!(skills[0]["reference"], "know");
    assert_eq!(skills[0]["agents"], json!(["desk"]));
    assert_eq!(skills[0]["file"], ".agents/skills/count/SKILL.md");
    assert_eq!(document["left_out"][0]["path"], ".agents/skills/Odd");
    assert_eq!(document["left_out"][0]["findings"][0]["rule"], "name-lowercase");
    let output = project.run(&["check"]).exits(0);
    assert!(output.stderr.contains("bad-skill"), "{output}");
}

#[test]
#[allow(clippy::print_stderr, reason = "a test that is skipped says so")]
fn skills_of_a_repository_are_fetched_offered_and_used() {
    let made = Project::new()
        .file(
            "skills/count/SKILL.md",
            "---\nname: count\ndescription: Does count.\nallowed-tools: nothing_else\n---\nDo count well.\n",
        )
        .file("skills/count/scripts/count.sh", "echo \"counted $1\"\n")
        .file("skills/Odd/SKILL.md", skill("Odd"));
    let git = |arguments: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.args(["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"]);
        command.args(arguments).current_dir(made.path()).output().is_ok_and(|output| output.status.success())
    };
    if !git(&["init", "-q", "-b", "main"]) {
        eprintln!("SKIPPED: there is no git to make a repository with");
        return;
    }
    assert!(git(&["add", "."]) && git(&["commit", "-q", "-m", "skills"]));
    let workflow = WORKFLOW.replace(".agents/skills}", &format!("'file://{}', ref: main}}", made.path().display()));
    let script = "replies: [{turns: [{call: [{tool: know_activate, with: {name: count}}]}, {call: [{tool: find, with: {}}]}, {reply: Done}]}]\n";
    let workflow = workflow
        .replace("actions:", "tools: {find: {description: Finds, set: found}}\nactions:")
        .replace("references: know,", "references: know, tools: find,");
    let project = project().file("workflows/desk.yaml", workflow).file("script.yaml", script);
    let words = ["run", "desk", "hi", "--script", "script.yaml", "--events", "events.jsonl"];
    let output = project.run(&words).exits(0);
    assert!(output.stderr.contains("is left out"), "{output}");
    let events = project.read("events.jsonl");
    assert!(events.contains("<description>Does count.</description>") && events.contains("Do count well."), "{events}");
    assert!(events.contains("not allowed while the skill `count` is in use"), "{events}");
    let listed = project.run(&["skills", "--json"]).exits(0).json();
    assert!(listed["repositories"][0]["commit"].as_str().is_some_and(|commit| commit.len() == 40), "{listed:#}");
    let arguments = json!({"name": "count", "script": "count.sh", "args": ["3"]});
    let output = call(&project, "know_run_script", &arguments).exits(0);
    assert!(output.stdout.contains("counted 3"), "{output}");
    let output = call(&project, "know_activate", &json!({"name": "Odd"})).exits(1);
    assert!(format!("{output}").contains("there is no skill `Odd`"), "{output}");
    project.write("workflows/desk.yaml", WORKFLOW.replace(".agents/skills", "'ftp://example.com/x'"));
    let output = project.run(&["check"]).exits(2);
    assert!(output.stderr.contains("bad-url") && output.stderr.contains("desk.yaml:5"), "{output}");
}
