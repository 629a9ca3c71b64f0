//! The domains that planning is measured on, generated. Each case is a domain, a start, and how many steps its best plan has
//! (`None`: there is no plan).
#![allow(dead_code, reason = "each bench uses its part of it")]

use agent_run::planning::{Action, Compiled, Domain, Effect, FactId, Goal, Plan, Problem, State, Truth, plan};

/// A planning problem to measure.
pub(crate) struct Case {
    pub(crate) compiled: Compiled,
    pub(crate) start: State,
    /// Steps of the best plan, `None` where there is none.
    pub(crate) steps: Option<usize>,
}

impl Case {
    fn new((compiled, start): (Compiled, State), steps: Option<usize>) -> Self {
        Case { compiled, start, steps }
    }

    pub(crate) fn problem(&self) -> Problem<'_> {
        Problem::new(&self.compiled, self.start.clone())
    }
}

pub(crate) fn chain_of(n: usize) -> Case {
    let mut builder = Builder::default();
    chain(&mut builder, n);
    Case::new(builder.goal(&[&format!("c{n}")]), Some(n))
}

pub(crate) fn layers_of(k: usize, m: usize) -> Case {
    let mut builder = Builder::default();
    layers(&mut builder, k, m);
    Case::new(builder.goal(&[&format!("c{k}")]), Some(k))
}

pub(crate) fn two_step_layers_of(k: usize, m: usize) -> Case {
    let mut builder = Builder::default();
    two_step_layers(&mut builder, k, m);
    Case::new(builder.goal(&[&format!("c{k}")]), Some(2 * k))
}

pub(crate) fn eight_among(n: usize, live: bool) -> Case {
    let mut builder = Builder::default();
    distractors(&mut builder, n, live);
    chain(&mut builder, 8);
    Case::new(builder.goal(&["c8"]), Some(8))
}

/// Live distractors that relevance alone cannot tell: each feeds an action that would make the goal but can never run.
pub(crate) fn eight_among_tempting(n: usize) -> Case {
    let mut builder = Builder::default();
    for index in 0..n {
        let junk = format!("junk{index}");
        builder.action(format!("distract{index}"), &["c0"], &[&junk], 0.0);
        builder.action(format!("tempt{index}"), &[&junk, "never"], &["c8"], 0.0);
    }
    chain(&mut builder, 8);
    Case::new(builder.goal(&["c8"]), Some(8))
}

// ---- without a plan ----

/// Takes away every action that makes a fact.
fn without_producers(builder: &mut Builder, text: &str) {
    let fact = builder.domain.fact(text);
    builder.domain.actions.retain(|action| !action.effects.contains(&(fact, Effect::Makes(true))));
}

/// Lets every action that makes a fact use up a token, which the goal asks for too.
fn use_up_token(builder: &mut Builder, text: &str) {
    builder.give("token");
    let (fact, token) = (builder.domain.fact(text), builder.domain.fact("token"));
    for action in &mut builder.domain.actions {
        if action.effects.contains(&(fact, Effect::Makes(true))) {
            action.pre.push((token, true));
            action.effects.push((token, Effect::Makes(false)));
        }
    }
}

/// Adds two things that undo each other, both made from a fact.
fn exclude_each_other(builder: &mut Builder, from: &str) {
    builder.action("left".into(), &[from], &["left", "!right"], 1.0);
    builder.action("right".into(), &[from], &["right", "!left"], 1.0);
}

/// Why a problem has no plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Flaw {
    /// Nothing makes a fact half-way.
    MissingProducer,
    /// What is done half-way uses up what the goal asks for.
    DeadEnd,
    /// What is done half-way uses up what the last step needs.
    UsedUp,
    /// The goal asks for two facts that undo each other.
    Mutex,
}

pub(crate) const FLAWS: [Flaw; 4] = [Flaw::MissingProducer, Flaw::DeadEnd, Flaw::UsedUp, Flaw::Mutex];

fn flawed(mut builder: Builder, flaw: Flaw, middle: &str, last: &str) -> Case {
    let goal: &[&str] = match flaw {
        Flaw::MissingProducer => {
            without_producers(&mut builder, middle);
            &[last]
        }
        Flaw::DeadEnd => {
            use_up_token(&mut builder, middle);
            &[last, "token"]
        }
        Flaw::UsedUp => {
            use_up_token(&mut builder, middle);
            builder.action("last".into(), &[last, "token"], &["done"], 1.0);
            &["done"]
        }
        Flaw::Mutex => {
            exclude_each_other(&mut builder, last);
            &["left", "right"]
        }
    };
    Case::new(builder.goal(goal), None)
}

pub(crate) fn unsolvable_chain(n: usize, flaw: Flaw) -> Case {
    let mut builder = Builder::default();
    chain(&mut builder, n);
    flawed(builder, flaw, &format!("c{}", n / 2), &format!("c{n}"))
}

pub(crate) fn unsolvable_layers(k: usize, m: usize, flaw: Flaw) -> Case {
    let mut builder = Builder::default();
    layers(&mut builder, k, m);
    flawed(builder, flaw, &format!("c{}", k / 2), &format!("c{k}"))
}

pub(crate) fn unsolvable_two_step_layers(k: usize, m: usize, flaw: Flaw) -> Case {
    let mut builder = Builder::default();
    two_step_layers(&mut builder, k, m);
    flawed(builder, flaw, &format!("c{}", k / 2), &format!("c{k}"))
}

pub(crate) fn unsolvable_among_live(n: usize, flaw: Flaw) -> Case {
    let mut builder = Builder::default();
    distractors(&mut builder, n, true);
    chain(&mut builder, 8);
    flawed(builder, flaw, "c4", "c8")
}

// ---- agents ----

pub(crate) fn agent_of(n: usize) -> Case {
    let (compiled, start) = agent(n);
    let steps = plan(&Problem::new(&compiled, start.clone())).plan().map(|plan| plan.steps.len());
    Case { compiled, start, steps }
}

/// The state after the first step of the plan came out as expected.
pub(crate) fn agent_after_step(n: usize) -> (Case, State, Plan) {
    let mut case = agent_of(n);
    let before = case.start.clone();
    let first = plan(&case.problem()).plan().expect("a plan").clone();
    for &(fact, effect) in &case.compiled.domain().actions[first.steps[0].action].effects {
        case.start.set(fact, if effect == Effect::Makes(true) { Truth::True } else { Truth::False });
    }
    case.steps = case.steps.map(|steps| steps - 1);
    (case, before, first)
}

/// A domain under construction, with every fact false at the start unless it is given.
#[derive(Default)]
struct Builder {
    domain: Domain,
    given: Vec<FactId>,
}

impl Builder {
    fn give(&mut self, text: &str) {
        let fact = self.domain.fact(text);
        self.given.push(fact);
    }

    /// Adds an action: `!x` stands for x being false.
    fn action(&mut self, name: String, pre: &[&str], effects: &[&str], cost: f64) -> &mut Action {
        let pre = pre.iter().map(|text| self.literal(text)).collect();
        let effects = effects.iter().map(|text| self.literal(text)).map(|(fact, value)| (fact, Effect::Makes(value)));
        let effects = effects.collect();
        self.domain.actions.push(Action { pre, effects, cost, ..Action::new(name) });
        self.domain.actions.last_mut().expect("just added")
    }

    fn literal(&mut self, text: &str) -> (FactId, bool) {
        match text.strip_prefix('!') {
            Some(text) => (self.domain.fact(text), false),
            None => (self.domain.fact(text), true),
        }
    }

    fn goal(mut self, pre: &[&str]) -> (Compiled, State) {
        let pre = pre.iter().map(|text| self.literal(text)).collect();
        self.domain.goals.push(Goal { name: "goal".into(), pre, value: 1.0 });
        let mut start = State::all(self.domain.fact_count(), Truth::False);
        self.given.iter().for_each(|&fact| start.set(fact, Truth::True));
        (self.domain.compile().expect("a good domain"), start)
    }
}

/// A chain of `n` actions; declared backwards, so that order is no help.
fn chain(builder: &mut Builder, n: usize) {
    builder.give("c0");
    for step in (0..n).rev() {
        builder.action(format!("step{step}"), &[&format!("c{step}")], &[&format!("c{}", step + 1)], 1.0);
    }
}

/// `k` layers of `m` alternatives with differing costs.
fn layers(builder: &mut Builder, k: usize, m: usize) {
    builder.give("c0");
    for layer in 0..k {
        for way in 0..m {
            let cost = ((way * 7 + layer * 3) % m + 1) as f64 / 10.0;
            let (from, to, own) = (format!("c{layer}"), format!("c{}", layer + 1), format!("by{layer}_{way}"));
            builder.action(format!("way{layer}_{way}"), &[&from], &[&to, &own], cost);
        }
    }
}

/// Layers whose alternatives go through a step of their own, so that no action is dominated.
fn two_step_layers(builder: &mut Builder, k: usize, m: usize) {
    builder.give("c0");
    for layer in 0..k {
        for way in 0..m {
            let cost = ((way * 7 + layer * 3) % m + 1) as f64 / 10.0;
            let (from, to, own) = (format!("c{layer}"), format!("c{}", layer + 1), format!("by{layer}_{way}"));
            builder.action(format!("draft{layer}_{way}"), &[&from], &[&own], cost);
            builder.action(format!("finish{layer}_{way}"), &[&own], &[&to], 0.1);
        }
    }
}

/// `n` cheap actions: inert ones lack a fact; live ones can all run, feed one another, undo one another, and lead nowhere.
fn distractors(builder: &mut Builder, n: usize, live: bool) {
    for index in 0..n {
        let before = if index % 3 == 0 { "c0".to_owned() } else { format!("junk{}", index - 1) };
        let before = if live { before } else { "never".to_owned() };
        let (junk, undone) = (format!("junk{index}"), format!("!junk{}", index / 2));
        builder.action(format!("distract{index}"), &[&before], &[&undone, &junk], 0.0);
    }
}

/// An agent-like domain of `n` actions: run-once marks, outputs, a union that may come out either way, a check.
fn agent(n: usize) -> (Compiled, State) {
    let mut builder = Builder::default();
    builder.give("has(In)");
    let steps = n - 4;
    for step in 0..steps {
        let input = if step == 0 { "has(In)".to_owned() } else { format!("has(T{})", (step - 1) / 2) };
        let (output, ran) = (format!("has(T{step})"), format!("ran(make{step})"));
        agent_action(&mut builder, &format!("make{step}"), &[&input], &[&output], &ran);
    }
    let (last, other) = (format!("has(T{})", steps - 1), format!("has(T{})", steps - 2));
    agent_action(&mut builder, "route", &[&last], &["has(Kind)"], "ran(route)");
    for kind in ["has(A)", "has(B)"] {
        let fact = builder.domain.fact(kind);
        builder.domain.actions.last_mut().expect("just added").effects.push((fact, Effect::Opens));
    }
    agent_action(&mut builder, "answer_a", &["has(A)", &other], &["has(Draft)"], "ran(answer_a)");
    agent_action(&mut builder, "answer_b", &["has(B)"], &["has(Draft)"], "ran(answer_b)");
    agent_action(&mut builder, "publish", &["has(Draft)"], &["has(Out)"], "ran(publish)");
    builder.goal(&["has(Out)", "ran(publish)"])
}

fn agent_action(builder: &mut Builder, name: &str, inputs: &[&str], outputs: &[&str], ran: &str) {
    let not_ran = format!("!{ran}");
    let pre: Vec<&str> = inputs.iter().copied().chain([not_ran.as_str()]).collect();
    let effects: Vec<&str> = outputs.iter().copied().chain([ran]).collect();
    let ran = builder.domain.fact(ran);
    let action = builder.action(name.to_owned(), &pre, &effects, 0.0);
    action.needs_progress = true;
    action.progress_exempt = vec![ran];
}
