//! Pictures in prompts: what people are shown of them, and who is not sent them.

use crate::support::mock_llm::{Answer, MockLlm};
use crate::support::project::Project;

const LOOK: &str = r#"
agent: look
inputs: UserInput
types: {Seen: string}
actions:
  look: {inputs: UserInput, output: Seen, prompt: {user: What is it?, images: [photos/cat.gif, "https://example.com/dog.png"]}}
goals: {done: {output: Seen}}
"#;

fn project(models: &str) -> Project {
    Project::new()
        .file("agent-run.yaml", format!("providers: {{demo: {{kind: scripted, file: script.yaml}}}}\n{models}"))
        .file("script.yaml", "replies: [{reply: A cat}]\n")
        .file("photos/cat.gif", "GIF89a")
        .file("photos/notes.gif", "No picture at all")
        .file("workflows/look.yaml", LOOK)
}

#[test]
fn people_see_what_a_picture_is_and_not_its_bytes() {
    let project = project("models: {default: demo/m}\n");
    let shown = "<image/gif, 6 bytes, sha256 610f5ae4d76e>";
    for args in [
        &["run", "workflows/look.yaml", "-p", "--no-store", "x"][..],
        &["render", "workflows/look.yaml", "look", "--sample"],
        &["render", "workflows/look.yaml", "look", "--sample", "--json"],
    ] {
        let output = project.run(args).exits(0);
        let all = format!("{}{}", output.stdout, output.stderr);
        assert!(all.contains(shown) && all.contains("<image/png at https://example.com/dog.png>"), "{all}");
        assert!(!all.contains("R0lGODlh"), "{all}");
    }
    let wire = project.run(&["render", "workflows/look.yaml", "look", "--sample", "--wire", "anthropic"]).exits(0);
    assert!(wire.stdout.contains("R0lGODlh"), "what is sent is shown as it is: {}", wire.stdout);
}

#[test]
fn a_file_that_is_no_picture_is_not_sent() {
    let project = project("models: {default: demo/m}\n")
        .file("workflows/look.yaml", LOOK.replace("photos/cat.gif", "photos/notes.gif"));
    let output = project.run(&["run", "workflows/look.yaml", "--no-store", "x"]).exits(1);
    let all = format!("{}{}", output.stdout, output.stderr);
    assert!(all.contains("the image `photos/notes.gif` is no PNG, JPEG, GIF or WebP"), "{all}");
}

#[test]
fn a_model_that_sees_nothing_is_passed_over_for_one_that_does() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let server = runtime.block_on(MockLlm::start(|_| Answer::openai_text("A cat")));
    let run = |fallback: &str| {
        let models = format!(
            "models:\n  default: {{model: near/blind, fallback: [{fallback}]}}\n  catalog: {{near/blind: {{supports: [tools]}}}}\n"
        );
        let near =
            format!("providers: {{near: {{kind: openai, base_url: \"{}\", api_key: k}}}}\n{models}", server.url());
        project("").file("agent-run.yaml", near).run(&["run", "workflows/look.yaml", "--no-store", "x"])
    };
    let alone = run("").exits(1);
    let all = format!("{}{}", alone.stdout, alone.stderr);
    assert!(all.contains("`near/blind` sees no pictures (`supports` of its entry in `models.catalog` lacks"), "{all}");
    assert_eq!(server.received().len(), 0);
    assert_eq!(run("near/seeing").exits(0).stdout.trim(), "A cat");
    assert_eq!(server.received()[0].body["model"], "seeing");
}
