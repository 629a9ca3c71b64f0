//! Guardrails: at each place what is blocked, redacted, told or asked about; what events and history never hold.

use serde_json::{Value, json};

use super::{Case, failure, output, ran};
use crate::engine::{Engine, Input};
use crate::process::{Document, Event, Process, Status, What};
use crate::store::{MemoryStore, Store};

const CARD: &str = "4111111111111111";

/// An agent whose one action asks a model, with these guardrails and these settings of the action.
fn writer(guardrails: &str, action: &str) -> Case {
    let workflow = format!(
        "agent: writer\nguardrails:\n{guardrails}\ntypes: {{Note: {{text: string}}}}\ntools:\n  look_up:\n    description: \
         Looks up a number\n    parameters: {{of: string}}\n    set: 'the number of {{{{ of }}}} is {CARD}'\nactions:\n  \
         write: {{inputs: UserInput, output: Note, prompt: 'Of {{{{ user_input.content }}}}', achieves: Written, tools: \
         look_up{action}}}\n"
    );
    Case::new(&workflow)
}

fn reply(text: &str) -> Value {
    json!([{"when": {"action": "write"}, "reply": {"text": text}}])
}

/// Everything that was told and is left of a run, as text.
fn everything(document: &Document, events: &[Event]) -> String {
    format!("{}\n{}", serde_json::to_string(document).unwrap(), serde_json::to_string(events).unwrap())
}

fn calls(events: &[Event]) -> usize {
    events.iter().filter(|event| matches!(event.what, What::LlmRequest { .. })).count()
}

fn notices(events: &[Event]) -> Vec<String> {
    let told = events.iter().filter_map(|event| match &event.what {
        What::Notice { message, .. } => Some(message.clone()),
        _ => None,
    });
    told.collect()
}

#[tokio::test]
async fn what_is_redacted_is_nowhere_in_input_prompt_reply_arguments_and_results() {
    let guardrails = "  no_cards: {check: [user_input, prompt, reply, tool_arguments, tool_result], pattern: '\\b\\d{16}\\b', action: redact}";
    let (document, events) = writer(guardrails, "")
        .inputs(vec![Input::Text(format!("Ada, {CARD}"))])
        .script(json!([{"when": {"action": "write"}, "turns": [
            {"call": [{"tool": "look_up", "with": {"of": CARD}}]},
            {"reply": {"text": format!("It is {CARD}.")}},
        ]}]))
        .observed()
        .await;
    assert_eq!(output(&document), json!({"text": "It is [redacted]."}));
    let all = everything(&document, &events);
    assert!(!all.contains(CARD), "{all}");
    for told in ["Of Ada, [redacted]", "the number of [redacted] is [redacted]"] {
        assert!(all.contains(told), "{told} in {all}");
    }
}

#[tokio::test]
async fn a_blocked_reply_fails_the_action_is_not_retried_and_is_told_to_no_one() {
    let guardrails = "  no_cards: {check: reply, pattern: '\\d{16}', action: block}";
    let (document, events) =
        writer(guardrails, ", retry: {attempts: 3, backoff: 1ms}").script(reply(CARD)).observed().await;
    let (kind, message) = failure(&document);
    assert_eq!(kind, "guardrail");
    assert!(message.contains("the guardrail `no_cards` blocks the reply: its pattern is found there"), "{message}");
    assert_eq!((ran(&document), calls(&events)), (vec!["write failed".to_owned()], 1));
    assert!(!everything(&document, &events).contains(CARD));
}

#[tokio::test]
async fn on_error_sees_what_a_guardrail_blocks() {
    let guardrails = "  no_cards: {check: reply, pattern: '\\d{16}'}";
    let action = ", on_error: {output: {text: withheld}}";
    let document = writer(guardrails, action).script(reply(CARD)).run().await;
    assert_eq!((output(&document), ran(&document)), (json!({"text": "withheld"}), vec!["write recovered".to_owned()]));
}

#[tokio::test]
async fn streamed_text_is_held_back_until_it_has_passed() {
    let stream = |action: &str, text: &str| {
        let guardrails = format!("  no_cards: {{check: reply, pattern: '\\d{{16}}', action: {action}}}");
        writer(&guardrails, "").script(reply(text)).options(|options| options.stream = true)
    };
    let deltas = |events: &[Event]| -> Vec<String> {
        let texts = events.iter().filter_map(|event| match &event.what {
            What::LlmDelta { text, .. } => Some(text.clone()),
            _ => None,
        });
        texts.collect()
    };
    let (document, events) = stream("redact", &format!("It is {CARD}, dear.")).observed().await;
    assert_eq!(deltas(&events), [r#"{"text":"It is [redacted], dear."}"#]);
    assert!(!everything(&document, &events).contains(CARD));
    let (_, events) = stream("block", "It is late.").observed().await;
    assert_eq!(deltas(&events), [r#"{"text":"It is late."}"#], "what passes is told as it came");
    let (document, events) = stream("block", CARD).observed().await;
    assert_eq!((deltas(&events), everything(&document, &events).contains(CARD)), (Vec::new(), false));
    let (_, events) = stream("warn", &format!("It is {CARD}.")).observed().await;
    assert!(deltas(&events).len() > 1, "what only warns holds nothing back");
}

#[tokio::test]
async fn exprs_see_text_value_check_and_tool_and_what_is_not_known_to_hold_does_not_hold() {
    let blocked = async |guardrail: &str, text: &str| {
        let document = writer(&format!("  g: {guardrail}"), "").script(reply(text)).run().await;
        document.failure.map(|failure| failure.message)
    };
    assert_eq!(blocked("{check: reply, expr: value.text | length < 5}", "Hi").await, None);
    let why = blocked("{check: reply, expr: value.text | length < 5}", "Hello there").await.unwrap();
    assert!(why.contains("its expr does not hold"), "{why}");
    assert_eq!(
        blocked("{check: reply, expr: \"'text' in text and check == 'reply' and tool == ''\"}", "Hi").await,
        None
    );
    let why = blocked("{check: reply, expr: value.sum < 5}", "Hi").await.unwrap();
    assert!(why.contains("the guardrail `g` blocks the reply"), "{why}");
    assert_eq!(blocked("{check: prompt, expr: \"'Of hello' in text and value[0].role == 'user'\"}", "Hi").await, None);
}

#[tokio::test]
async fn a_schema_and_an_expr_look_at_the_arguments_of_the_tools_they_mean() {
    let run = async |guardrail: &str| {
        let script = json!([{"when": {"action": "write"}, "turns": [
            {"call": [{"tool": "look_up", "with": {"of": "Ada"}}]}, {"reply": {"text": "ok"}},
        ]}]);
        writer(&format!("  g: {guardrail}"), "").script(script).observed().await
    };
    let (document, events) =
        run("{check: tool_arguments, schema: {properties: {of: {enum: [Grace]}}}, action: block}").await;
    assert_eq!(failure(&document).0, "guardrail");
    assert!(failure(&document).1.contains("blocks the arguments of `look_up`: it does not fit its schema"));
    let called =
        events.iter().any(|event| matches!(&event.what, What::ToolCalled { arguments, .. } if !arguments.is_null()));
    assert!(!called, "the tool is not called, and its arguments are told to no one");
    let (document, _) = run("{check: tool_arguments, expr: \"tool != 'pay'\"}").await;
    assert_eq!(output(&document), json!({"text": "ok"}));
    let (document, _) = run("{check: tool_result, expr: \"tool != 'look_up'\"}").await;
    assert!(failure(&document).1.contains("blocks the result of `look_up`"));
}

#[tokio::test]
async fn a_warning_is_told_and_nothing_else_happens() {
    let guardrails = "  polite: {check: [prompt, reply], pattern: (?i)damn, action: warn}";
    let (document, events) = writer(guardrails, "").script(reply("Damn it")).observed().await;
    assert_eq!(output(&document), json!({"text": "Damn it"}));
    assert_eq!(notices(&events), ["the guardrail `polite` objects to the reply: its pattern is found there"]);
}

#[tokio::test]
async fn a_judge_is_a_call_named_as_the_guardrail_and_what_it_reads_is_told_to_no_one() {
    let guardrails = "  no_advice: {check: reply, prompt: The text gives no medical advice., action: redact}";
    let judged = |passes: bool| {
        json!([
            {"when": {"action": "no_advice", "contains": "<untrusted_content source=\"reply\">"},
             "reply": {"passes": passes, "why": "It names a dose."}},
            {"when": {"action": "write"}, "reply": {"text": "Take two pills"}},
        ])
    };
    let (document, events) = writer(guardrails, "").script(judged(true)).observed().await;
    assert_eq!((output(&document), calls(&events)), (json!({"text": "Take two pills"}), 2));
    let (document, events) = writer(guardrails, "").script(judged(false)).observed().await;
    assert_eq!(output(&document), json!({"text": "[redacted]"}));
    assert!(!everything(&document, &events).contains("two pills"));
    let blocking = guardrails.replace("redact", "block");
    let document = writer(&blocking, "").script(judged(false)).run().await;
    assert!(failure(&document).1.ends_with("blocks the reply: It names a dose."), "{:?}", failure(&document));
    assert_eq!(document.usage.llm_calls, 2);
}

#[tokio::test]
async fn only_actions_that_name_it_have_a_named_guardrail_and_its_text() {
    let guardrails = "  no_cards: {check: reply, pattern: '\\d{16}', scope: named, instruct: Name no cards.}";
    let (document, events) = writer(guardrails, "").script(reply(CARD)).observed().await;
    assert_eq!(output(&document), json!({"text": CARD}));
    assert!(!everything(&document, &events).contains("Name no cards."));
    let (document, events) = writer(guardrails, ", guardrails: no_cards").script(reply(CARD)).observed().await;
    assert_eq!(failure(&document).0, "guardrail");
    let mut systems = events.iter().filter_map(|event| match &event.what {
        What::LlmRequest { system, .. } => system.clone(),
        _ => None,
    });
    assert!(systems.next_back().unwrap().contains("Name no cards."));
}

#[tokio::test]
async fn guardrails_of_the_project_hold_beside_those_of_the_agent() {
    let project = "models: {default: openai/gpt-4.1-mini}\nguardrails: {no_cards: {check: reply, pattern: '\\d{16}', action: redact}}\n";
    let guardrails = "  no_names: {check: reply, pattern: Ada, action: redact}";
    let case = writer(guardrails, "").file("agent-run.yaml", project).script(reply(&format!("Ada {CARD}")));
    assert_eq!(output(&case.run().await), json!({"text": "[redacted] [redacted]"}));
}

async fn begun(case: Case) -> Process {
    let (engine, name) = case.engine();
    let mut process = engine.start(&name, case.inputs, case.options).expect("it begins");
    process.run().await;
    process
}

#[tokio::test]
async fn a_person_is_asked_and_the_answer_repeats_no_call() {
    for check in ["user_input", "prompt", "reply", "tool_arguments", "tool_result"] {
        let guardrails = format!("  careful: {{check: {check}, pattern: (?i)ada, action: ask}}");
        let case = || {
            writer(&guardrails, "").inputs(vec![Input::Text("Ada".to_owned())]).script(json!([
                {"when": {"action": "write"}, "turns": [
                    {"call": [{"tool": "look_up", "with": {"of": "Ada"}}]}, {"reply": {"text": "Ada it is"}},
                ]},
            ]))
        };
        let mut process = begun(case()).await;
        assert_eq!(process.status(), Status::Waiting, "{check}");
        let prompt = process.document().waiting.expect("a question").prompt;
        assert!(prompt.contains("the guardrail `careful` objects to") || prompt.contains("The guardrail `careful`"));
        process.answer(json!({"confirm": true})).await.expect("it waits");
        process.run().await;
        let document = process.document();
        assert_eq!(output(&document), json!({"text": "Ada it is"}), "{check}");
        assert_eq!((document.usage.llm_calls, document.usage.tool_calls), (2, 1), "{check}");
        let mut process = begun(case()).await;
        process.answer(json!({"confirm": false})).await.expect("it waits");
        process.run().await;
        let (kind, message) = failure(&process.document());
        assert_eq!(kind, "guardrail", "{check}");
        assert!(message.contains("refused by the person"), "{message}");
    }
}

#[tokio::test]
async fn blocked_input_begins_nothing_and_a_blocked_message_is_not_answered() {
    let guardrails = "  no_cards: {check: user_input, pattern: '\\d{16}', action: block}";
    let case = writer(guardrails, "").inputs(vec![Input::Text(CARD.to_owned())]).script(reply("never"));
    let (document, events) = case.observed().await;
    assert_eq!((failure(&document).0.as_str(), calls(&events)), ("guardrail", 0));
    assert!(!everything(&document, &events).contains(CARD));
    let chat = "agent: talk\nchat: {}\nguardrails:\n  no_cards: {check: user_input, pattern: '\\d{16}', action: block}\n  \
                no_names: {check: user_input, pattern: Ada, action: redact}\nactions:\n  answer: {trigger: UserMessage, \
                inputs: UserMessage, output: AssistantMessage, set: {content: 'you said {{ user_message.content }}'}}\n";
    let case = Case::new(chat).inputs([CARD, "I am Ada"].map(|text| Input::Text(text.to_owned())).into());
    let (document, events) = case.observed().await;
    let all = everything(&document, &events);
    assert_eq!(document.status, Status::Waiting, "the chat goes on");
    assert!(all.contains("you said I am [redacted]") && !all.contains(CARD) && !all.contains("Ada"), "{all}");
    let unanswered = events.iter().filter(|event| matches!(event.what, What::NotAnswered { .. })).count();
    assert_eq!(unanswered, 1);
}

#[tokio::test]
async fn a_message_that_is_answered_later_is_redacted_before_it_is_told() {
    let chat = "agent: talk\nchat: {}\nguardrails: {no_names: {check: user_input, pattern: Ada, action: redact}}\nactions:\n  \
                answer: {trigger: UserMessage, inputs: UserMessage, output: AssistantMessage, set: {content: hello}}\n";
    let heard = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let ear = heard.clone();
    let case = Case::new(chat).inputs(Vec::new()).options(|options| {
        options.observer = Some(std::sync::Arc::new(move |event: &Event| ear.lock().unwrap().push(event.clone())));
    });
    let mut process = begun(case).await;
    process.answer(json!({"content": "I am Ada"})).await.expect("it waits");
    process.run().await;
    let all = everything(&process.document(), &heard.lock().unwrap());
    assert!(all.contains("I am [redacted]") && !all.contains("Ada"), "{all}");
}

#[tokio::test]
async fn input_that_a_person_is_asked_about_is_let_in_after_a_rebuild_and_the_journal_never_has_what_is_redacted() {
    let guardrails = "  no_cards: {check: [user_input, reply, tool_arguments, tool_result], pattern: '\\d{16}', action: redact}\n  \
                      careful: {check: user_input, pattern: Ada, action: ask}";
    let case = || {
        writer(guardrails, "").inputs(vec![Input::Text(format!("Ada {CARD}"))]).script(json!([
            {"when": {"action": "write"}, "turns": [
                {"call": [{"tool": "look_up", "with": {"of": CARD}}]}, {"reply": {"text": CARD}},
            ]},
        ]))
    };
    let memory = std::sync::Arc::new(MemoryStore::default());
    let store: std::sync::Arc<dyn Store> = memory.clone();
    let engine = |case: &Case| Engine::new(case.program(), std::sync::Arc::new(case.world())).with_store(store.clone());
    let one = case();
    let mut process = engine(&one).start("writer", one.inputs, one.options).expect("it begins");
    assert_eq!(process.run().await, Status::Waiting);
    let id = process.core().id.clone();
    drop(process);
    let two = case();
    let mut process = engine(&two).resume(&id, two.options).await.expect("it is kept");
    process.answer(json!({"confirm": true})).await.expect("it waits");
    assert_eq!(process.run().await, Status::Completed);
    assert_eq!(output(&process.document()), json!({"text": "[redacted]"}));
    let inputs = process.document().blackboard.iter().filter(|object| object.r#type == "UserInput").count();
    assert_eq!(inputs, 1);
    let batches = memory.batches();
    let lines: Vec<&str> = batches.iter().flat_map(|batch| &batch.lines).map(|line| line.body.as_str()).collect();
    assert!(lines.iter().any(|line| line.contains("\"record\":\"received\"")));
    assert!(!lines.iter().any(|line| line.contains(CARD)), "{lines:#?}");
}
