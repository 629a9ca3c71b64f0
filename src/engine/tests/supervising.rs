//! Supervised processes: a model calls the actions.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::{Case, failure, output, ran};
use crate::compile::Entry;
use crate::engine::{Engine, Input, PlanOptions, ReloadPolicy, Reloader, RunOptions};
use crate::llm::Script;
use crate::process::{Document, Event, Process, Status, What};
use crate::store::{MemoryStore, Store};
use crate::world::MemoryWorld;

const KITCHEN: &str = "agent: kitchen
planner: {type: supervisor, max_turns: 4}
types:
  Wish: {people: integer}
  Change: {what: string}
  Recipe: {title: string}
  Review: {ok: boolean}
  Menu: {text: string}
inputs: UserInput
actions:
  wish: {description: Read the wish, inputs: UserInput, output: Wish, set: {people: 4}}
  cook: {inputs: Wish, output: Recipe, set: {title: 'soup for {{ wish.people }}'}}
  change: {inputs: [Recipe, Change], output: Recipe, can_rerun: true, set: {title: '{{ recipe.title }}, {{ change.what }}'}}
  burn: {inputs: Wish, output: Recipe, call: nothing_there}
  write: {inputs: {recipe: Recipe, review: Review?}, output: Menu, set: {text: '{{ recipe.title }}{{ \" approved\" if review else \"\" }}'}}
tools:
  nothing_there: {description: d, http: {url: 'http://127.0.0.1:1/x', allow_private: true}}
goals: {served: {output: Menu, description: There is a menu}}
";

/// Replies of the supervisor, one for each turn.
fn turns(replies: &[Value]) -> Value {
    let rule = |(at, reply): (usize, &Value)| {
        let mut rule = json!({"when": {"action": "supervisor", "turn": at + 1}});
        rule.as_object_mut().unwrap().extend(reply.as_object().unwrap().clone());
        rule
    };
    replies.iter().enumerate().map(rule).collect()
}

fn call(tool: &str, with: Value) -> Value {
    json!({"tool": tool, "with": with})
}

fn calls(tools: &[&str]) -> Value {
    json!({"call": tools.iter().map(|tool| call(tool, json!({}))).collect::<Vec<_>>()})
}

/// The results of calls as the model read them, in order.
fn results(events: &[Event]) -> Vec<String> {
    let last = events.iter().rev().find_map(|event| match &event.what {
        What::LlmRequest { action, messages, .. } if action == "supervisor" => Some(messages.clone()),
        _ => None,
    });
    let parts = last.into_iter().flatten().flat_map(|message| message["parts"].as_array().cloned().unwrap_or_default());
    parts.filter_map(|part| part["content"].as_str().map(str::to_owned)).collect()
}

#[tokio::test]
async fn it_calls_actions_until_the_goal_holds_and_each_is_in_the_history() {
    let script = turns(&[
        calls(&["wish"]),
        // The second needs what the first gives, and follows it in the same turn.
        calls(&["cook", "write"]),
    ]);
    let (document, events) = Case::new(KITCHEN).script(script).observed().await;
    assert_eq!(document.status, Status::Completed, "{:?}", document.failure);
    assert_eq!(ran(&document), ["wish", "cook", "write"]);
    assert_eq!((output(&document), document.goal.as_deref()), (json!({"text": "soup for 4"}), Some("served")));
    assert_eq!((document.usage.llm_calls, document.plans.len()), (2, 0));
    let told = results(&events);
    assert_eq!(told.len(), 1);
    assert!(told[0].starts_with("<untrusted_content source=\"wish\">"), "{told:?}");
    assert!(told[0].contains(r#"{"added":[{"type":"Wish","schema":{"#), "{told:?}");
    assert!(told[0].contains(r#""value":{"people":4}"#), "{told:?}");
}

#[tokio::test]
async fn what_is_on_the_blackboard_is_filled_in_and_the_rest_is_asked_for() {
    let (engine, name) = Case::new(KITCHEN).engine();
    let options = || RunOptions { no_date_line: true, ..RunOptions::default() };
    let hello = || vec![Input::Text("hello".to_owned())];
    let first = engine.render(&name, "supervisor", hello(), false, options()).await.unwrap();
    assert_eq!(first.model.as_deref(), Some("openai/gpt-4.1-mini"));
    let tool = |document: &crate::engine::RenderDocument, name: &str| {
        document.tools.iter().find(|tool| tool["name"] == name).cloned().unwrap_or_default()
    };
    let ready = tool(&first, "wish");
    assert_eq!(ready["parameters"]["properties"], json!({}));
    let text = ready["description"].as_str().unwrap();
    assert!(text.contains("Read the wish") && text.contains("Ready: nothing is left to ask."), "{text}");
    let change = tool(&first, "change");
    assert_eq!(change["parameters"]["required"], json!(["recipe", "change"]));
    assert_eq!(change["parameters"]["properties"]["change"]["properties"]["what"]["type"], "string");
    let write = tool(&first, "write");
    assert_eq!(write["parameters"]["required"], json!(["recipe"]), "an optional input may be given");
    assert!(write["parameters"]["properties"]["review"].is_object(), "{write}");
    assert!(write["description"].as_str().unwrap().contains("Leads to the goal `served`."), "{write}");
    let system = &first.messages[0].content;
    assert!(system.contains("- `served`: There is a menu (it needs `Menu`)"), "{system}");
    let with = vec![Input::Text("hello".into()), Input::Typed("Recipe".into(), json!({"title": "pie"}))];
    let then = engine.render(&name, "supervisor", with, false, options()).await.unwrap();
    assert_eq!(tool(&then, "change")["parameters"]["required"], json!(["change"]));
    assert!(tool(&then, "write")["description"].as_str().unwrap().contains("Ready"));
}

#[tokio::test]
async fn what_the_model_gives_is_validated_and_joins_the_blackboard() {
    let script = turns(&[
        calls(&["wish", "cook"]),
        json!({"call": [call("change", json!({"change": {"what": 7}})), call("change", json!({"change": {"what": "no nuts"}, "recipe": {"title": "x"}}))]}),
        json!({"call": [call("change", json!({"change": {"what": "no nuts"}})), call("write", json!({}))]}),
    ]);
    let (document, events) = Case::new(KITCHEN).script(script).observed().await;
    assert_eq!(ran(&document), ["wish", "cook", "change", "write"], "{:?}", document.failure);
    assert_eq!(output(&document), json!({"text": "soup for 4, no nuts"}));
    assert!(document.blackboard.iter().any(|object| object.r#type == "Change"));
    let told = results(&events);
    assert!(told[2].starts_with("`change` cannot be called like this:\n- `change`: "), "{told:?}");
    assert!(told[3].contains("- `recipe`: it is filled in from the blackboard; leave it out"), "{told:?}");
}

#[tokio::test]
async fn unknown_tools_missing_arguments_and_failing_actions_are_answers() {
    let script = turns(&[
        json!({"call": [call("wishes", json!({})), call("cook", json!({}))]}),
        calls(&["wish", "burn"]),
        calls(&["burn", "wish", "cook", "write"]),
    ]);
    let (document, events) = Case::new(KITCHEN).script(script).observed().await;
    assert_eq!(ran(&document), ["wish", "burn failed", "cook", "write"], "{:?}", document.failure);
    assert_eq!(document.status, Status::Completed);
    let told = results(&events);
    assert_eq!(told[0], "There is no tool `wishes`; did you mean `wish`?");
    assert!(
        told[1].contains("`wish`: it is not on the blackboard; give a `Wish`, or call `wish` first, which gives it"),
        "{told:?}"
    );
    assert!(told[3].starts_with("`burn` failed, and is not tried again in this run; find another way:"), "{told:?}");
}

#[tokio::test]
async fn an_argument_of_the_goals_type_is_no_result() {
    let workflow = "agent: a
planner: supervisor
types: {Story: {text: string}, Note: {text: string}}
inputs: UserInput
actions:
  review: {inputs: Story, output: Note, set: {text: 'of {{ story.text }}'}}
  tell: {inputs: Note, output: Story, set: {text: told}}
goals: {told: {output: Story}}
";
    let script = turns(&[json!({"call": call("review", json!({"story": {"text": "made up"}}))}), calls(&["tell"])]);
    let document = Case::new(workflow).script(script).run().await;
    assert_eq!(ran(&document), ["review", "tell"], "{:?}", document.failure);
    assert_eq!(output(&document), json!({"text": "told"}));
}

#[tokio::test]
async fn a_reply_without_calls_is_answered_once() {
    let script = turns(&[json!({"reply": "I think we should cook."}), json!({"reply": "Shall we?"})]);
    let (document, events) = Case::new(KITCHEN).script(script).observed().await;
    assert_eq!((document.status, document.usage.llm_calls), (Status::Stuck, 2));
    let (kind, message) = failure(&document);
    assert_eq!(kind, "stuck");
    assert_eq!(
        message,
        "the supervisor has called no action in two replies, the last of which is \"Shall we?\", and no goal holds; \
         `wish`, `cook`, `write` would reach `served`"
    );
    let nudge = format!("{events:?}");
    assert!(nudge.contains("No goal holds yet, and text alone changes nothing. Call an action. Ready now: `wish`."));
    let script =
        turns(&[json!({"reply": "Hm."}), calls(&["wish"]), json!({"reply": "Hm."}), calls(&["cook", "write"])]);
    assert_eq!(Case::new(KITCHEN).script(script).run().await.status, Status::Completed);
}

#[tokio::test]
async fn the_last_turn_is_announced_and_after_it_the_process_is_stuck() {
    let idle = || json!({"call": call("change", json!({}))});
    let script = turns(&[idle(), idle(), idle(), idle(), idle()]);
    let (document, events) = Case::new(KITCHEN).script(script).observed().await;
    assert_eq!((document.status, document.usage.llm_calls), (Status::Stuck, 5));
    let message = failure(&document).1;
    assert!(
        message.starts_with(
            "the supervisor has had its 4 turns (`max_turns`) and a last one, 5 in all, and no goal holds; "
        ),
        "{message}"
    );
    assert!(format!("{events:?}").contains("That was turn 4 of 4, and no goal holds. This is the last one"));
    let script = turns(&[idle(), idle(), idle(), idle(), calls(&["wish", "cook", "write"])]);
    assert_eq!(Case::new(KITCHEN).script(script).run().await.status, Status::Completed);
}

#[tokio::test]
async fn limits_and_on_error_hold_as_under_any_planner() {
    let script = || turns(&[calls(&["wish", "burn"]), calls(&["cook", "write"])]);
    let limited = KITCHEN.replace("inputs: UserInput\nactions", "limits: {actions: 2}\ninputs: UserInput\nactions");
    let document = Case::new(&limited).script(script()).run().await;
    assert_eq!(document.status, Status::Terminated);
    assert!(failure(&document).1.contains("the limit of 2 actions"), "{:?}", document.failure);
    let fails =
        KITCHEN.replace("output: Recipe, call: nothing_there", "output: Recipe, on_error: fail, call: nothing_there");
    let document = Case::new(&fails).script(script()).run().await;
    assert_eq!((document.status, ran(&document)), (Status::Failed, vec!["wish".to_owned(), "burn failed".into()]));
    let mends = KITCHEN.replace(
        "output: Recipe, call: nothing_there",
        "output: Recipe, on_error: {output: {title: toast}}, call: nothing_there",
    );
    let (document, events) =
        Case::new(&mends).script(turns(&[calls(&["wish", "burn"]), calls(&["write"])])).observed().await;
    assert_eq!(output(&document), json!({"text": "toast"}));
    assert!(results(&events)[1].contains("it failed, and this stands for its output"), "{:?}", results(&events));
}

const STAGES: &str = "agent: stages
planner: supervisor
types: {Word: {text: string}, End: {text: string}}
inputs: UserInput
conditions:
  polite: {inputs: Word, prompt: 'Is this polite? {{ word.text }}'}
states:
  Draft:
    fields: {text: string}
    actions:
      polish: {output: Final, set: {text: '{{ text }}!'}}
  Final:
    fields: {text: string}
    actions:
      word: {output: Word, set: {text: '{{ text }}'}}
      publish: {inputs: Word, output: End, pre: polite, achieves: Out, set: {text: '{{ word.text }}'}}
actions:
  draft: {inputs: UserInput, output: Draft, set: {text: '{{ user_input.content }}'}}
";

#[tokio::test]
async fn in_a_state_its_actions_are_the_tools_and_a_prompted_condition_is_asked_for_the_call() {
    let script = |holds: bool| {
        let mut rules = turns(&[
            calls(&["draft"]),
            calls(&["Draft_polish"]),
            calls(&["Draft_polish", "Final_word", "Final.publish"]),
            json!({"reply": "I give up."}),
            json!({"reply": "I give up."}),
        ]);
        let condition = json!({"when": {"action": "polite"}, "reply": {"holds": holds, "confidence": 1, "why": "x"}});
        rules.as_array_mut().unwrap().push(condition);
        rules
    };
    let (document, events) = Case::new(STAGES).script(script(true)).observed().await;
    assert_eq!(ran(&document), ["draft", "Draft.polish", "Final.word", "Final.publish"], "{:?}", document.failure);
    assert_eq!(output(&document), json!({"text": "hello!"}));
    let offered = events.iter().filter_map(|event| match &event.what {
        What::LlmRequest { action, tools, .. } if action == "supervisor" => Some(tools.clone()),
        _ => None,
    });
    let offered: Vec<Vec<String>> = offered.collect();
    assert_eq!(offered[0], ["draft"]);
    assert_eq!(offered[1], ["Draft_polish"]);
    assert_eq!(offered[2], ["Final_word", "Final_publish"]);
    let told = results(&events);
    assert!(told[0].contains(r#""removed":["UserInput"]"#), "{told:?}");
    let (document, events) = Case::new(STAGES).script(script(false)).observed().await;
    assert_eq!(document.status, Status::Stuck);
    let told = results(&events);
    assert_eq!(told[2], "`Draft_polish` cannot be called now: it belongs to the state `Draft`.");
    assert_eq!(told[4], "`Final.publish` cannot run now: it needs `polite`.");
}

#[tokio::test]
async fn a_condition_about_an_argument_is_asked_and_an_action_that_waits_for_another_says_so() {
    let workflow = "agent: a
planner: supervisor
types: {Draft: {text: string}, Seen: {ok: boolean}, End: {text: string}}
inputs: UserInput
conditions:
  polite: {inputs: Draft, prompt: 'Is this polite? {{ draft.text }}'}
actions:
  look: {inputs: UserInput, output: Seen, set: {ok: true}}
  send: {inputs: Draft, output: End, pre: [polite, 'ran(\"look\")'], achieves: Sent, set: {text: '{{ draft.text }}'}}
";
    let draft = |text: &str| call("send", json!({"draft": {"text": text}}));
    let mut rules =
        turns(&[json!({"call": draft("hey")}), json!({"call": [call("look", json!({})), draft("please")]})]);
    let answer = |text: &str, holds: bool| json!({"when": {"action": "polite", "contains": text}, "reply": {"holds": holds, "confidence": 1, "why": "x"}});
    rules.as_array_mut().unwrap().extend([answer("hey", false), answer("please", true)]);
    let (document, events) = Case::new(workflow).script(rules).observed().await;
    assert_eq!(ran(&document), ["look", "send"], "{:?}", document.failure);
    assert_eq!(output(&document), json!({"text": "please"}));
    let told = results(&events);
    assert!(told[0].contains("`send` cannot run now: it needs ") && told[0].contains("ran"), "{told:?}");
}

const ASKING: &str = "agent: asking
planner: supervisor
types: {Topic: {text: string}, Word: {text: string}, Story: {text: string}}
inputs: UserInput
concurrency: 2
actions:
  topic: {inputs: UserInput, output: Topic, prompt: a topic}
  ask: {inputs: {hint: Hint}, output: Word, ask: 'A word, please ({{ hint.text }})'}
  tell: {inputs: [Topic, Word], output: Story, prompt: '{{ topic.text }} {{ word.text }}', achieves: Told}
";

fn asking() -> Case {
    let workflow = ASKING.replace("types: {", "types: {Hint: {text: string}, ");
    let mut rules = turns(&[
        json!({"call": [call("topic", json!({})), call("ask", json!({"hint": {"text": "short"}}))]}),
        calls(&["tell"]),
    ]);
    let own = [("topic", json!({"text": "sea"})), ("tell", json!({"text": "once"}))];
    let own = own.into_iter().map(|(action, reply)| json!({"when": {"action": action}, "reply": reply}));
    rules.as_array_mut().unwrap().extend(own);
    Case::new(&workflow).script(rules)
}

/// A document without what depends on the clock.
fn timeless(document: &Document) -> Value {
    let mut document = serde_json::to_value(document).unwrap();
    for entry in document["history"].as_array_mut().unwrap() {
        (entry["ms"], entry["started_at"]) = (json!(0), json!(""));
    }
    for object in document["blackboard"].as_array_mut().unwrap() {
        object["value"]["timestamp"] = json!("");
    }
    document
}

async fn answered(process: &mut Process) {
    if process.run().await == Status::Waiting {
        process.answer(json!({"text": "wave"})).await.unwrap();
        process.run().await;
    }
}

#[tokio::test]
async fn an_action_that_asks_a_person_makes_the_process_wait_and_the_answer_goes_on() {
    let case = asking();
    let (engine, name) = case.engine();
    let mut process = engine.start(&name, case.inputs, case.options).unwrap();
    assert_eq!(process.run().await, Status::Waiting);
    assert_eq!(process.waiting().unwrap().question.prompt, "A word, please (short)");
    process.answer(json!({"text": "wave"})).await.unwrap();
    assert_eq!(process.run().await, Status::Completed);
    let document = process.document();
    assert_eq!(ran(&document), ["topic", "ask", "tell"]);
    assert_eq!((output(&document), document.usage.llm_calls), (json!({"text": "once"}), 4));
}

/// Wherever the journal of a supervised process ends: it is rebuilt, comes to the same end, and asks nothing again.
#[tokio::test]
async fn it_goes_on_from_every_line_of_its_journal_and_repeats_no_call() {
    let case = asking();
    let program = case.program();
    let memory = Arc::new(MemoryStore::default());
    let engine = |store: Arc<dyn Store>| Engine::new(program.clone(), Arc::new(case.world())).with_store(store);
    let mut process = engine(memory.clone()).start("asking", case.inputs.clone(), asking().options).unwrap();
    answered(&mut process).await;
    let (id, whole) = (process.core().id.clone(), process.document());
    assert_eq!(whole.status, Status::Completed, "{:?}", whole.failure);
    let batches = memory.batches();
    assert!(batches.len() > 8, "{}", batches.len());
    let is_step = |line: &&crate::store::Line| line.body.contains("\"record\":\"step\"") && line.body.contains("/llm");
    let steps = |most: usize| batches[..most].iter().flat_map(|batch| &batch.lines).filter(is_step).count();
    assert_eq!(steps(batches.len()), 4);
    for most in 1..batches.len() {
        let left: Arc<dyn Store> = Arc::new(MemoryStore::default());
        for batch in batches.iter().take(most) {
            left.append(batch.clone()).await.unwrap();
        }
        let heard: Arc<Mutex<usize>> = Arc::default();
        let counts = heard.clone();
        let observer = Arc::new(move |event: &Event| {
            *counts.lock().unwrap() += usize::from(matches!(event.what, What::LlmRequest { .. }));
        });
        let options = RunOptions { observer: Some(observer), ..asking().options };
        let mut restored = engine(left).resume(&id, options).await.unwrap();
        answered(&mut restored).await;
        assert_eq!(timeless(&restored.document()), timeless(&whole), "cut after {most}");
        assert_eq!(*heard.lock().unwrap(), steps(batches.len()) - steps(most), "cut after {most}");
    }
}

#[tokio::test]
async fn a_supervised_sub_agent_waits_through_its_parent() {
    let outer = "agent: outer
types: {Story: {text: string}}
inputs: UserInput
actions: {go: {inputs: UserInput, output: Story, agent: asking}}
goals: {done: {output: Story}}
";
    let inner = asking();
    let script = inner.options.script.clone();
    let text = ASKING.replace("types: {", "types: {Hint: {text: string}, ");
    let case = Case::new(outer).file("workflows/asking.yaml", &text).options(|options| options.script = script);
    let (engine, name) = case.engine();
    let mut process = engine.start(&name, case.inputs, case.options).unwrap();
    assert_eq!(process.run().await, Status::Waiting, "{:?}", process.failure());
    process.answer(json!({"text": "wave"})).await.unwrap();
    assert_eq!(process.run().await, Status::Completed, "{:?}", process.failure());
    assert_eq!(output(&process.document()), json!({"text": "once"}));
}

#[tokio::test]
async fn a_changed_program_is_taken_between_two_turns() {
    const FILE: &str = "workflows/test.yaml";
    let world =
        MemoryWorld::with_files([(FILE, KITCHEN), ("agent-run.yaml", "models: {default: openai/gpt-4.1-mini}\n")]);
    let world = Arc::new(world);
    let mut reloader = Reloader::new(world.clone(), Entry::File(FILE.into()));
    assert!(reloader.reload().swapped);
    let script = turns(&[calls(&["wish"]), calls(&["roast"]), calls(&["write"])]);
    let options = RunOptions {
        script: Some(Script::from_value(&json!({"replies": script})).unwrap()),
        reload: ReloadPolicy::Adopt,
        ..RunOptions::default()
    };
    let mut process = reloader.engine().unwrap().start("kitchen", vec![Input::Text("x".into())], options).unwrap();
    for _ in 0..2 {
        process.tick().await;
    }
    world.save(
        FILE,
        KITCHEN.replace("  cook:", "  roast: {inputs: Wish, output: Recipe, set: {title: roast}}\n  cook:"),
    );
    assert!(reloader.reload().swapped);
    assert_eq!(process.run().await, Status::Completed, "{:?}", process.failure());
    assert_eq!(output(&process.document()), json!({"text": "roast"}));
}

#[test]
fn a_plan_says_what_can_be_called_and_a_way_that_the_model_may_take() {
    let (engine, name) = Case::new(KITCHEN).engine();
    let plan = engine.plan(&name, vec![], RunOptions::default(), &PlanOptions::default()).unwrap();
    let json = serde_json::to_value(&plan).unwrap();
    let steps: Vec<&str> =
        json["steps"].as_array().unwrap().iter().map(|step| step["action"].as_str().unwrap()).collect();
    assert_eq!(steps, ["wish", "cook", "write"]);
    assert_eq!(json["callable"][2], json!({"action": "change", "ready": false, "asks": ["recipe", "change"]}));
    assert_eq!(json["callable"][0], json!({"action": "wish", "ready": true}));
    let only = KITCHEN
        .replace("  cook: {inputs: Wish,", "  cook: {inputs: [Wish, Change],")
        .replace("  burn:", "  burned:")
        .replace("inputs: Wish, output: Recipe, call", "inputs: [Wish, Change], output: Recipe, call");
    let (engine, name) = Case::new(&only).engine();
    let plan = engine.plan(&name, vec![], RunOptions::default(), &PlanOptions::default()).unwrap();
    assert!(plan.reachable && plan.given == ["Change"], "{plan:?}");
}
