//! `run` and `plan` without a file: a model chooses.

use serde_json::json;

use super::{Project, project};

/// Two agents, of which the second needs what the first makes; a third that clashes with it.
fn desk() -> Project {
    Project::new()
        .file(
            "agent-run.yaml",
            "project: {name: test}\nmodels: {default: demo/any}\nautonomy: {goal_cut_off: 0.5}\nproviders: {demo: {kind: scripted, file: script.yaml}}\n",
        )
        .file(
            "script.yaml",
            "replies:\n\
             - when: {action: ranking, contains: unsure}\n  reply: {ranking: [{name: reader, confidence: 0.5, why: Perhaps}]}\n\
             - when: {action: ranking, contains: 'poet.poem'}\n  reply: {ranking: [{name: poet.poem, confidence: 0.55, why: A poem}]}\n\
             - when: {action: ranking}\n  reply: {ranking: [{name: reader, confidence: 0.6, why: It reads}]}\n\
             - when: {action: note, model: demo/tiny}\n  reply: {text: noted}\n",
        )
        .file(
            "workflows/reader.yaml",
            "agent: reader\ndescription: Takes notes of texts\ninputs: UserInput\ndefaults: {llm: demo/tiny}\n\
             types: {Note: {text: string}, Other: {text: string}}\nactions:\n\
             \x20 note: {inputs: UserInput, output: Note, prompt: 'Note {{ user_input.content }}', achieves: There is a note}\n\
             \x20 waste: {inputs: UserInput, output: Other, set: {text: nothing}}\n",
        )
        .file(
            "workflows/poet.yaml",
            "agent: poet\ndescription: Writes poems of notes\ninputs: Note\ntypes: {Note: {text: string}, Poem: {text: string}}\nactions:\n\
             \x20 write: {inputs: Note, output: Poem, set: {text: 'o {{ note.text }}'}}\ngoals:\n  poem: {output: Poem, description: There is a poem}\n",
        )
        .file(
            "workflows/clash.yaml",
            "agent: clash\ninputs: UserInput\ntypes: {Note: {words: string}}\nactions:\n\
             \x20 cheat: {inputs: UserInput, output: Note, set: {words: x}, achieves: Cheated}\n",
        )
}

#[test]
fn a_request_without_a_file_runs_the_agent_that_a_model_is_sure_of() {
    let output = desk().run(&["run", "take a note"]).exits(0);
    assert!(output.stderr.contains("agent reader 0.60: It reads"), "{output}");
    assert!(output.stdout.contains("noted"), "{output}");
}

#[test]
fn a_choice_below_the_cut_is_refused_with_the_ranking() {
    let output = desk().run(&["run", "I am unsure"]).exits(1);
    assert!(output.stderr.contains("no agent is sure enough for this; the least confidence is 0.6"), "{output}");
    assert!(output.stderr.contains("reader 0.50: Perhaps"), "{output}");
    assert!(output.stderr.contains("agent_cut_off"), "{output}");
}

#[test]
fn an_open_run_puts_an_agent_together_from_all_actions_and_prunes_it() {
    let project = desk();
    let output = project.run(&["run", "--open", "-v", "--json", "a poem please"]).exits(0);
    let document = output.json();
    assert_eq!(document["agent"], "open-poem");
    assert_eq!(document["plans"], json!([["note", "write"]]));
    assert_eq!(document["output"], json!({"type": "Poem", "value": {"text": "o noted"}}));
    // The action of another agent keeps that agent's model.
    assert_eq!(document["history"][0]["llm"][0]["model"], "demo/tiny");
    assert!(output.stderr.contains("the agent `clash`: its type `Note` is declared otherwise"), "{output}");
}

#[test]
fn a_type_of_result_that_one_agent_gives_needs_no_model() {
    let output = desk().run(&["run", "--returns", "Poem", "--input", "Note={\"text\": \"moon\"}"]).exits(0);
    assert!(output.stdout.contains("o moon"), "{output}");
    let output = desk().run(&["run", "--returns", "Pome", "--input", "Note={\"text\": \"moon\"}"]).exits(2);
    assert!(output.stderr.contains("`poet` has no goal that gives `Pome`"), "{output}");
}

#[test]
fn nothing_at_all_is_told_what_to_say() {
    let output = project().run(&["run"]).exits(2);
    assert!(output.stderr.contains("there is nothing to run"), "{output}");
}

#[test]
fn a_confidence_beyond_one_is_refused() {
    let output = project().file("agent-run.yaml", "autonomy: {agent_cut_off: 60}\n").run(&["check"]).exits(2);
    assert!(output.stderr.contains("a confidence from 0 to 1"), "{output}");
}
