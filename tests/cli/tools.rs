//! `tools list|tree|schema|call` on a shipped example.

use serde_json::json;

use crate::support::project::Project;

const FILE: &str = "workflows/desk-tools.yaml";

#[test]
fn the_tree_has_every_level_with_its_tokens() {
    let tree = Project::of_the_repository().run(&["tools", "tree", FILE, "answer", "--json"]).exits(0).json();
    assert_eq!(tree[0]["name"], "shop");
    assert_eq!(tree[0]["children"][1]["children"][1]["children"][0]["name"], "set_price");
    let number = |pointer: &str| tree.pointer(pointer).and_then(serde_json::Value::as_u64).unwrap_or_default();
    let parts = number("/0/children/0/tokens_unfolded") + number("/0/children/1/tokens_unfolded");
    assert_eq!(number("/0/tokens_unfolded"), parts);
    assert!(number("/0/tokens") < parts && number("/1/tokens") == number("/1/tokens_unfolded"), "{tree}");
}

#[test]
fn a_schema_is_in_the_providers_own_form() {
    let project = Project::of_the_repository();
    let schema =
        |form: &str| project.run(&["tools", "schema", FILE, "answer", "--for", form, "--json"]).exits(0).json();
    assert_eq!(schema("openai")[1]["function"]["name"], "clerk");
    assert_eq!(schema("anthropic")[1]["input_schema"]["required"], json!(["request"]));
    assert_eq!(schema("mcp")[1]["inputSchema"]["type"], "object");
    assert_eq!(schema("gemini")[1]["name"], "clerk");
    let refused = project.run(&["tools", "schema", FILE, "--for", "antropic"]).exits(2);
    assert!(format!("{refused}").contains("did you mean `anthropic`?"), "{refused}");
}

#[test]
fn list_and_render_offer_the_same_first_turn() {
    let workflow = "agent: desk
inputs: UserInput
types: {Report: string, Order: {id: string}, Claim: {text: string}}
tools:
  cancel: {description: Needs an order, requires: Order, set: x}
  claim: {description: Makes a claim, publish: Claim, set: {text: x}}
  settle: {description: Needs a claim, requires: Claim, set: x}
actions:
  load: {inputs: UserInput, output: Order, set: {id: a}}
  report: {inputs: UserInput, output: Report, tools: [cancel, claim, settle], prompt: x}
goals: {done: {output: Report}}
";
    let project = Project::new().file("workflows/desk.yaml", workflow);
    let names = |tools: &serde_json::Value| -> Vec<String> {
        tools
            .as_array()
            .into_iter()
            .flatten()
            .map(|tool| tool["name"].as_str().unwrap_or_default().to_owned())
            .collect()
    };
    let listed = project.run(&["tools", "list", "workflows/desk.yaml", "report", "--json"]).exits(0).json();
    let rendered = project.run(&["render", "workflows/desk.yaml", "report", "--sample", "--json"]).exits(0).json();
    assert_eq!(names(&listed), ["cancel", "claim"]);
    assert_eq!(names(&rendered["tools"]), names(&listed));
    let all = project.run(&["tools", "list", "workflows/desk.yaml", "--json"]).exits(0).json();
    assert_eq!(names(&all), ["cancel", "claim", "settle"]);
}

#[test]
fn strict_names_the_tools_that_are_not() {
    let workflow = |parameters: &str| {
        format!(
            "agent: desk\ninputs: UserInput\ntypes: {{Report: string}}\ntools:\n  plain: {{description: a, parameters: {{id: string, \
             year?: integer}}, set: x}}\n  other: {{description: b, parameters: {{{parameters}}}, set: x}}\nactions:\n  report: \
             {{inputs: UserInput, output: Report, tools: [plain, other], prompt: x}}\ngoals: {{done: {{output: Report}}}}\n"
        )
    };
    let project = Project::new().file("workflows/desk.yaml", workflow("more: map<integer>"));
    let schema = |form: &str| project.run(&["tools", "schema", "workflows/desk.yaml", "--for", form, "--strict"]);
    for form in ["openai", "responses", "anthropic", "bedrock"] {
        let refused = schema(form).exits(1);
        assert!(refused.stderr.contains(&format!("1 of 2 tools cannot go out strictly to `{form}`")), "{refused}");
        assert!(refused.stderr.contains("`other`: `more` has keys of its own choice"), "{refused}");
    }
    assert!(schema("mcp").exits(2).stderr.contains("the form `mcp` knows no strictness"));
    project.write("workflows/desk.yaml", workflow("more: list<integer>"));
    assert_eq!(schema("openai").exits(0).stdout.matches("\"strict\": true").count(), 2);
}

#[test]
fn one_call_by_hand_is_checked_confirmed_and_made() {
    let project = Project::of_the_repository();
    let call = |more: &[&str]| project.run(&[&["tools", "call", FILE], more].concat());
    let found = call(&["find_order", r#"{"customer": "Lind"}"#, "--json"]).exits(0).json();
    assert_eq!(found[0]["id"], "B7");
    call(&["cancel_order", r#"{"id": "B7"}"#]).exits(3);
    let agreed = call(&["cancel_order", r#"{"id": "B7"}"#, "--yes"]).exits(0);
    assert!(format!("{agreed}").contains("B7 is cancelled"), "{agreed}");
    let wrong = call(&["cancel_order", r#"{"di": "B7"}"#]).exits(1);
    assert!(format!("{wrong}").contains("missing field `id`"), "{wrong}");
    let unknown = call(&["cancel", "{}"]).exits(2);
    assert!(format!("{unknown}").contains("did you mean `cancel_order`?"), "{unknown}");
    call(&["cancel_order", "[1]"]).exits(2);
}
