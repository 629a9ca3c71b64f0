//! Inputs, options, `plan` and `render`.

use serde_json::json;

use super::super::{PlanOptions, StartError};
use super::{Case, Input, RunOptions, output};

const PEOPLE: &str = "agent: people
config: {greeting: Hi, deep: {n: 1}}
types: {Person: {name: string}, Sign: {sign: string}, Story: string}
inputs: {who: Person, sign: Sign, note: UserInput?}
actions:
  tell: {inputs: [Person, Sign], output: Story, set: '{{ config.greeting }} {{ person.name }}, {{ sign.sign }}{{ config.deep.n }}'}
goals: {told: {output: Story}}
";

#[tokio::test]
async fn every_missing_input_is_named_with_a_line_to_copy() {
    let error = Case::new(PEOPLE).inputs(vec![]).try_run().await.unwrap_err();
    let StartError::MissingInputs(missing) = &error else { panic!("{error}") };
    let names: Vec<(&str, &str)> =
        missing.iter().map(|input| (input.name.as_str(), input.type_name.as_str())).collect();
    assert_eq!(names, [("who", "Person"), ("sign", "Sign")]);
    assert!(error.to_string().contains("--input 'Person={\"name\":"), "{error}");
}

#[tokio::test]
async fn inputs_are_validated_and_bare_ones_find_their_type() {
    let typed = Input::Typed("Person".into(), json!({"name": "Lynda"}));
    let bare = Input::Bare(json!({"sign": "leo"}));
    let document = Case::new(PEOPLE).inputs(vec![typed.clone(), bare.clone()]).run().await;
    assert_eq!(output(&document), json!("Hi Lynda, leo1"));
    assert_eq!(document.blackboard[0].name.as_deref(), Some("who"));
    let wrong = Input::Typed("Person".into(), json!({"nme": "Lynda"}));
    let error = Case::new(PEOPLE).inputs(vec![wrong, bare.clone()]).try_run().await.unwrap_err();
    assert!(
        error.to_string().contains("the input `Person` is no `Person`") && error.to_string().contains("nme"),
        "{error}"
    );
    let unknown = Input::Typed("Persn".into(), json!({}));
    let error = Case::new(PEOPLE).inputs(vec![unknown, bare]).try_run().await.unwrap_err();
    assert!(error.to_string().contains("did you mean `Person`?"), "{error}");
    let error = Case::new(PEOPLE).inputs(vec![typed, Input::Bare(json!(7))]).try_run().await.unwrap_err();
    assert!(error.to_string().contains("fits none"), "{error}");
}

#[tokio::test]
async fn config_entries_are_replaced_for_the_run() {
    let inputs = || {
        vec![Input::Typed("Person".into(), json!({"name": "L"})), Input::Typed("sign".into(), json!({"sign": "leo"}))]
    };
    let case = Case::new(PEOPLE).inputs(inputs()).options(|options| {
        options.config.insert("greeting".into(), json!("Bye"));
        options.config.insert("deep.n".into(), json!(2));
    });
    assert_eq!(output(&case.run().await), json!("Bye L, leo2"));
    let case =
        Case::new(PEOPLE).inputs(inputs()).options(|options| drop(options.config.insert("greting".into(), json!(1))));
    assert!(case.try_run().await.unwrap_err().to_string().contains("did you mean `greeting`?"));
}

#[tokio::test]
async fn what_is_not_supported_is_refused_with_its_place() {
    let error = Case::new(
        "agent: asks
types: {Story: string}
inputs: UserInput
references: {guide: {rag: {documents: docs/*.md}}}
actions: {tell: {inputs: UserInput, output: Story, references: guide, prompt: x}}
goals: {told: {output: Story}}
",
    )
    .try_run()
    .await
    .unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("not supported yet: ") && text.contains("workflows/test.yaml:5"), "{text}");
}

#[test]
fn a_plan_is_made_from_declared_inputs_with_reasons() {
    let (engine, name) = Case::new(PEOPLE).engine();
    let plan = engine.plan(&name, vec![], RunOptions::default(), &PlanOptions::default()).unwrap();
    let json = serde_json::to_value(&plan).unwrap();
    assert_eq!((json["goal"].as_str(), json["reachable"].as_bool()), (Some("told"), Some(true)));
    assert_eq!(json["steps"][0]["action"], "tell");
    let because: Vec<&str> =
        json["steps"][0]["because"].as_array().unwrap().iter().filter_map(|fact| fact.as_str()).collect();
    assert_eq!(because, ["has(Person)", "has(Sign)"]);
    let without = PlanOptions { without: vec!["tell".into()], ..PlanOptions::default() };
    let plan = engine.plan(&name, vec![], RunOptions::default(), &without).unwrap();
    assert!(!plan.reachable && !plan.goals[0].reachable && plan.steps.is_empty());
    let assume = PlanOptions { assume: vec!["has(Stroy)".into()], ..PlanOptions::default() };
    let error = engine.plan(&name, vec![], RunOptions::default(), &assume).unwrap_err();
    assert!(error.to_string().contains("did you mean `has(Story)`?"), "{error}");
}

#[tokio::test]
async fn a_request_is_rendered_with_made_up_inputs() {
    let (engine, name) = Case::new(
        "agent: renders
types: {Person: {name: string}, Story: {text: string}}
inputs: Person
actions: {tell: {inputs: Person, output: Story, llm: {model: openai/gpt-4.1, temperature: 0.2}, prompt: {system: Be kind., user: 'About {{ person.name }}'}}}
goals: {told: {output: Story}}
",
    )
    .engine();
    let options = || RunOptions { no_date_line: true, ..RunOptions::default() };
    let document = engine.render(&name, "tell", vec![], true, options()).await.unwrap();
    assert_eq!((document.model.as_deref(), document.options), (Some("openai/gpt-4.1"), json!({"temperature": 0.2})));
    let messages: Vec<(&str, &str)> =
        document.messages.iter().map(|message| (message.role.as_str(), message.content.as_str())).collect();
    assert_eq!(messages[0], ("system", "Be kind."));
    assert!(messages[1].1.starts_with("About "), "{messages:?}");
    assert_eq!(document.output_schema.unwrap()["properties"]["text"]["type"], "string");
    assert!(document.input_tokens_estimate > 5);
    let error = engine.render(&name, "tell", vec![], false, options()).await.unwrap_err();
    assert!(matches!(error, StartError::MissingInputs(_)), "{error}");
    let error = engine.render(&name, "tel", vec![], true, options()).await.unwrap_err();
    assert!(error.to_string().contains("did you mean `tell`?"), "{error}");
}

#[tokio::test]
async fn a_thousand_processes_share_one_program() {
    let case = Case::new(
        "agent: many
types: {A: string, B: string}
inputs: UserInput
actions:
  a: {inputs: UserInput, output: A, prompt: 'x {{ user_input.content }}'}
  b: {inputs: A, output: B, set: '{{ a }}'}
goals: {done: {output: B}}
",
    )
    .script(json!([{"reply": "ok", "delay": "20ms"}]));
    let (engine, name) = case.engine();
    let started = std::time::Instant::now();
    let runs = (0..1_000).map(|number| {
        let (engine, name, options) = (engine.clone(), name.clone(), case.options.clone());
        async move {
            let mut process = engine.start(&name, vec![Input::Text(number.to_string())], options).unwrap();
            process.run().await;
            process.result().map(|typed| typed.value.clone())
        }
    });
    let results = futures::future::join_all(runs).await;
    assert!(results.iter().all(|result| *result == Some(json!("ok"))));
    assert!(started.elapsed().as_secs() < 10, "{:?}", started.elapsed());
}
