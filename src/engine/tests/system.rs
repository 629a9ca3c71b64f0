//! The system message: both forms of personas, contributors, the date, their order (language.md 10).

use serde_json::json;

use super::Case;
use crate::process::What;

/// The system message that the one action of an agent sends.
async fn system(declared: &str, action: &str, change: impl FnOnce(Case) -> Case) -> String {
    let workflow = format!(
        "agent: system\ntypes: {{Story: string}}\nconfig: {{name: Ada}}\n{declared}\nactions:\n  tell: {{inputs: UserInput, output: \
         Story, prompt: {{system: The author., user: Tell}}, achieves: Told{action}}}\n"
    );
    let (_, events) = change(Case::new(&workflow).script(json!([{"reply": "x"}]))).observed().await;
    let found = events.iter().find_map(|event| match &event.what {
        What::LlmRequest { system, .. } => system.clone(),
        _ => None,
    });
    found.expect("a system message")
}

#[tokio::test]
async fn the_second_form_of_a_persona_is_in_its_own_order_and_absent_lines_are_left_out() {
    let whole = "personas:\n  reviewer: {voice: Insightful, objective: Guide readers, persona: A reviewer for a newspaper, name: '{{ config.name }}'}\n";
    assert_eq!(
        system(whole, ", persona: reviewer", |case| case).await,
        "You are Ada.\nYour persona: A reviewer for a newspaper.\nYour objective is Guide readers.\nYour voice: Insightful.\n\nThe author."
    );
    let part = "personas: {reviewer: {name: Media Book Review, voice: Dry}}\ndefaults: {persona: reviewer}\n";
    assert_eq!(system(part, "", |case| case).await, "You are Media Book Review.\nYour voice: Dry.\n\nThe author.");
}

#[tokio::test]
async fn an_absent_line_of_the_first_form_is_left_out_and_the_nearest_persona_holds() {
    let declared = "personas: {a: {role: Clerk, backstory: From Rome}, b: {goal: Sell}}\ndefaults: {persona: b}\n";
    assert_eq!(system(declared, ", persona: a", |case| case).await, "Role: Clerk\nBackstory: From Rome\n\nThe author.");
}

#[tokio::test]
async fn contributors_stand_after_the_persona_where_their_condition_holds_each_text_once() {
    let declared = "personas: {a: {role: Clerk}}\nguardrails: {polite: {instruct: Be polite.}}\n";
    let contributors = ", persona: a, contributors: [{text: 'For {{ user_input.content }}.'}, {text: Never., when: user_input.content == 'bye'}, \
                        {text: Always., when: config.name == 'Ada'}, {text: Always.}]";
    assert_eq!(
        system(declared, contributors, |case| case).await,
        "Role: Clerk\n\nFor hello.\n\nAlways.\n\nBe polite.\n\nThe author."
    );
}

#[tokio::test]
async fn the_date_names_the_knowledge_cutoff_of_the_model_where_that_is_declared() {
    let project = "models: {default: openai/own, catalog: {openai/own: {knowledge_cutoff: 2024-06}}}\n";
    let dated = |case: Case| case.file("agent-run.yaml", project).options(|options| options.no_date_line = false);
    assert_eq!(system("", "", dated).await, "Current date: 2025-01-01. Knowledge cutoff: 2024-06.\n\nThe author.");
}
