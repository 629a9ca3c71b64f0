//! Calls to models: what is sent, what is accepted, what is told back.

use serde_json::{Value, json};

use super::{Case, Input, failure, output};
use crate::process::{Event, Status, What};

const EXTRACT: &str = "agent: extract
types: {Person: {name: {type: string, minLength: 2}, age?: integer, rules: {}}}
inputs: UserInput
actions:
  extract: {inputs: UserInput, output: Person, prompt: 'Who is {{ user_input.content }}?'}
goals: {known: {output: Person}}
";

fn extract() -> Case {
    Case::new(&EXTRACT.replace(", rules: {}", ""))
}

/// The messages of each request, as `role: text`, with the system message first.
fn requests(events: &[Event]) -> Vec<Vec<String>> {
    let shown = |message: &Value| {
        let parts = message["parts"].as_array().into_iter().flatten();
        let text: Vec<&str> = parts.filter_map(|part| part["text"].as_str()).collect();
        format!("{}: {}", message["role"].as_str().unwrap_or_default(), text.join("|"))
    };
    events
        .iter()
        .filter_map(|event| match &event.what {
            What::LlmRequest { system, messages, .. } => {
                let system = system.iter().map(|system| format!("system: {system}"));
                Some(system.chain(messages.iter().map(shown)).collect())
            }
            _ => None,
        })
        .collect()
}

#[tokio::test]
async fn a_wrong_reply_is_told_to_the_model_and_the_next_one_taken() {
    let script = json!([{"turns": [{"raw": "not json"}, {"reply": {"name": "L"}}, {"reply": {"name": "Lynda"}}]}]);
    let (document, events) = extract().script(script).observed().await;
    assert_eq!(output(&document), json!({"name": "Lynda"}));
    assert_eq!(document.history[0].llm.len(), 3);
    let last = requests(&events).pop().unwrap();
    assert_eq!(last.len(), 5, "{last:?}");
    assert!(last[2].starts_with("user: This reply cannot be used:\n- the reply is not valid JSON"), "{last:?}");
    assert!(last[4].contains("`name`") && last[4].contains("at least 2 characters"), "{last:?}");
}

#[tokio::test]
async fn after_the_last_attempt_the_action_fails_with_every_error_and_the_last_reply() {
    let document = extract().script(json!([{"reply": {"nme": "Lynda"}}])).run().await;
    let (kind, message) = failure(&document);
    assert_eq!(kind, "validation");
    assert!(message.contains("3 replies") && message.contains("(3)") && message.contains("nme"), "{message}");
    assert_eq!(document.usage.llm_calls, 3);
}

#[tokio::test]
async fn rules_of_a_type_are_checked_and_told_back() {
    let (document, events) = Case::new(
        "agent: rules
types:
  Span:
    fields: {from: integer, to: integer}
    rules: [{check: from < to, message: from must be before to}]
inputs: UserInput
actions: {find: {inputs: UserInput, output: Span, prompt: which}}
goals: {known: {output: Span}}
",
    )
    .script(json!([{"turns": [{"reply": {"from": 3, "to": 1}}, {"reply": {"from": 1, "to": 3}}]}]))
    .observed()
    .await;
    assert_eq!(output(&document), json!({"from": 1, "to": 3}));
    assert!(requests(&events)[1].last().unwrap().contains("from must be before to"));
}

#[tokio::test]
async fn truncated_and_refused_replies_fail_at_once_as_such() {
    let document = extract().script(json!([{"reply": {"name": "Lynda"}, "truncate": true}])).run().await;
    assert_eq!((failure(&document).0.as_str(), document.usage.llm_calls), ("llm", 1));
    assert!(failure(&document).1.contains("cut off"), "{:?}", document.failure);
    let document = extract().script(json!([{"refuse": "I cannot"}])).run().await;
    assert_eq!(failure(&document), ("refusal".into(), "`openai/gpt-4.1-mini` refused: I cannot".into()));
}

#[tokio::test]
async fn text_outputs_are_plain_text_and_lists_unions_and_nothing_come_wrapped() {
    let workflow = |output: &str| {
        format!(
            "agent: shapes
types: {{Story: string, Cat: {{name: string}}, Dog: {{name: string}}, Pet: {{one_of: [Cat, Dog]}}}}
inputs: UserInput
actions: {{make: {{inputs: UserInput, output: {output}, prompt: make, achieves: made}}}}
"
        )
    };
    let case = |output: &str, reply: Value| Case::new(&workflow(output)).script(json!([{ "reply": reply }]));
    assert_eq!(output(&case("Story", json!("Once.")).run().await), json!("Once."));
    assert_eq!(
        output(&case("list<Cat>", json!([{"name": "a"}, {"name": "b"}])).run().await),
        json!([{"name": "a"}, {"name": "b"}])
    );
    let pet = case("Pet", json!({"type": "Dog", "name": "Rex"})).run().await;
    assert_eq!(output(&pet), json!({"type": "Dog", "name": "Rex"}));
    let (nothing, events) = case("Cat?", Value::Null).observed().await;
    assert_eq!((nothing.status, nothing.history[0].status.word()), (Status::Stuck, "empty"));
    assert!(requests(&events)[0][0].contains("answer null"), "{events:?}");
}

#[tokio::test]
async fn the_system_message_has_its_parts_in_order() {
    let case = Case::new(
        "agent: system
types: {Story: string}
inputs: UserInput
personas:
  writer: {role: Creative storyteller, goal: Write engaging stories, backstory: Used to work in a circus}
defaults: {persona: writer}
actions:
  tell: {inputs: UserInput, output: Story, contributors: [{text: Be brief.}], prompt: {system: 'Author says {{ user_input.content }}', user: Tell}}
goals: {told: {output: Story}}
",
    )
    .script(json!([{"reply": "x"}]))
    .options(|options| options.no_date_line = false);
    let (_, events) = case.observed().await;
    let request = &requests(&events)[0];
    let expected = "system: Role: Creative storyteller\nGoal: Write engaging stories\nBackstory: Used to work in a circus\n\nBe brief.\n\nCurrent date: 2025-01-01.";
    assert!(request[0].starts_with(expected), "{request:?}");
    assert!(request[0].ends_with("\n\nAuthor says hello"), "{request:?}");
    assert_eq!(request[1], "user: Tell");
}

#[tokio::test]
async fn examples_with_and_only_shape_the_call() {
    let (document, events) = Case::new(
        "agent: parts
types: {Person: {name: string, source: string}, Found: {person: Person}}
inputs: UserInput
config: {source: mail}
actions:
  find:
    inputs: {text: UserInput, source: Place}
    output: Person
    prompt:
      user: '{{ greeting }} {{ text.content }}'
      with: {greeting: Hi}
      only: name
      examples: [{given: Bob here, output: {name: Bob}}]
types2: 1
"
        .replace("types2: 1\n", "goals: {known: {output: Person}}\n")
        .replace("Found: {person: Person}", "Place: string")
        .as_str(),
    )
    .inputs(vec![Input::Text("hello".into()), Input::Typed("Place".into(), json!("mail"))])
    .script(json!([{"reply": {"name": "Lynda"}}]))
    .observed()
    .await;
    assert_eq!(output(&document), json!({"name": "Lynda", "source": "mail"}));
    assert_eq!(requests(&events)[0], ["user: Bob here", "assistant: {\"name\":\"Bob\"}", "user: Hi hello"]);
}

#[tokio::test(start_paused = true)]
async fn fallback_models_are_tried_after_the_retries() {
    let document = Case::new(
        "agent: fallback
types: {Story: string}
inputs: UserInput
actions:
  tell: {inputs: UserInput, output: Story, llm: {model: openai/gpt-4.1, retries: 1, fallback: [openai/gpt-4.1-nano]}, prompt: hi}
goals: {told: {output: Story}}
",
    )
    .script(json!([
        {"when": {"model": "openai/gpt-4.1"}, "error": {"status": 500}},
        {"when": {"model": "openai/gpt-4.1-nano"}, "reply": "told"},
    ]))
    .run()
    .await;
    assert_eq!(output(&document), json!("told"));
    assert_eq!(document.history[0].llm[0].model, "openai/gpt-4.1-nano");
}

#[tokio::test]
async fn a_role_is_replaced_for_the_run_and_tokens_are_priced() {
    let document = extract()
        .script(json!([{"reply": {"name": "Lynda"}, "usage": {"input_tokens": 1000000, "output_tokens": 0}}]))
        .options(|options| drop(options.models.insert("default".into(), "openai/gpt-4.1".into())))
        .run()
        .await;
    let note = &document.history[0].llm[0];
    assert_eq!((note.model.as_str(), note.cost_usd), ("openai/gpt-4.1", 2.0));
    assert_eq!(document.usage.cost_usd, 2.0);
}

#[tokio::test]
async fn pieces_of_a_reply_are_events() {
    let (_, events) = extract()
        .script(json!([{"reply": {"name": "Lynda"}}]))
        .options(|options| options.stream = true)
        .observed()
        .await;
    let text: String = events
        .iter()
        .filter_map(|event| match &event.what {
            What::LlmDelta { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), json!({"name": "Lynda"}));
    let seqs: Vec<u64> = events.iter().map(|event| event.seq).collect();
    assert_eq!(seqs, (1..=events.len() as u64).collect::<Vec<_>>());
}
