//! Planning times on generated domains: `cargo bench --bench planner`. Figures and their meaning: `docs/performance.md`.

use agent_run::planning::{
    Action, Compiled, Domain, Effect, FactId, Goal, Outcome, Problem, State, Truth, continue_plan, plan,
};

fn main() {
    divan::main();
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

/// Plans to the goal that `solvable` says it has, and returns the number of expanded states.
fn bench(bencher: divan::Bencher, (compiled, start): (Compiled, State), steps: Option<usize>) {
    let problem = Problem::new(&compiled, start.clone());
    let outcome = plan(&problem);
    assert_eq!(outcome.plan().map(|plan| plan.steps.len()), steps, "{outcome:?}");
    assert!(!matches!(outcome, Outcome::LimitReached(_)));
    bencher.bench(|| plan(&Problem::new(&compiled, start.clone())));
}

#[divan::bench(args = [10, 100, 1000])]
fn chain_of(bencher: divan::Bencher, n: usize) {
    let mut builder = Builder::default();
    chain(&mut builder, n);
    bench(bencher, builder.goal(&[&format!("c{n}")]), Some(n));
}

#[divan::bench(args = [(6, 4), (10, 5), (20, 20)])]
fn layers_of(bencher: divan::Bencher, (k, m): (usize, usize)) {
    let mut builder = Builder::default();
    layers(&mut builder, k, m);
    bench(bencher, builder.goal(&[&format!("c{k}")]), Some(k));
}

#[divan::bench(args = [(6, 4), (10, 5), (20, 20)])]
fn two_step_layers_of(bencher: divan::Bencher, (k, m): (usize, usize)) {
    let mut builder = Builder::default();
    two_step_layers(&mut builder, k, m);
    bench(bencher, builder.goal(&[&format!("c{k}")]), Some(2 * k));
}

#[divan::bench(args = [100, 1000, 10_000])]
fn eight_among_inert(bencher: divan::Bencher, n: usize) {
    let mut builder = Builder::default();
    distractors(&mut builder, n, false);
    chain(&mut builder, 8);
    bench(bencher, builder.goal(&["c8"]), Some(8));
}

#[divan::bench(args = [100, 1000, 10_000])]
fn eight_among_live(bencher: divan::Bencher, n: usize) {
    let mut builder = Builder::default();
    distractors(&mut builder, n, true);
    chain(&mut builder, 8);
    bench(bencher, builder.goal(&["c8"]), Some(8));
}

/// Live distractors that relevance alone cannot tell: each feeds an action that would make the goal but can never run.
#[divan::bench(args = [100, 1000, 10_000])]
fn eight_among_tempting(bencher: divan::Bencher, n: usize) {
    let mut builder = Builder::default();
    for index in 0..n {
        let junk = format!("junk{index}");
        builder.action(format!("distract{index}"), &["c0"], &[&junk], 0.0);
        builder.action(format!("tempt{index}"), &[&junk, "never"], &["c8"], 0.0);
    }
    chain(&mut builder, 8);
    bench(bencher, builder.goal(&["c8"]), Some(8));
}

#[divan::bench(args = [10, 100, 1000])]
fn unsolvable_chain_missing_producer(bencher: divan::Bencher, n: usize) {
    let mut builder = Builder::default();
    chain(&mut builder, n);
    builder.domain.actions.remove(n / 2);
    bench(bencher, builder.goal(&[&format!("c{n}")]), None);
}

/// The middle step uses up what the goal also asks for.
#[divan::bench(args = [10, 100, 1000])]
fn unsolvable_chain_dead_end(bencher: divan::Bencher, n: usize) {
    let mut builder = Builder::default();
    builder.give("token");
    chain(&mut builder, n);
    let (token, _) = builder.literal("token");
    builder.domain.actions[n / 2].pre.push((token, true));
    builder.domain.actions[n / 2].effects.push((token, Effect::Makes(false)));
    bench(bencher, builder.goal(&[&format!("c{n}"), "token"]), None);
}

/// Two things that undo each other are both asked for at the end of the layers.
#[divan::bench(args = [(6, 4), (10, 5), (20, 20)])]
fn unsolvable_layers_mutex(bencher: divan::Bencher, (k, m): (usize, usize)) {
    let mut builder = Builder::default();
    layers(&mut builder, k, m);
    let last = format!("c{k}");
    builder.action("left".into(), &[&last], &["left", "!right"], 1.0);
    builder.action("right".into(), &[&last], &["right", "!left"], 1.0);
    bench(bencher, builder.goal(&["left", "right"]), None);
}

#[divan::bench(args = [1000, 10_000])]
fn unsolvable_among_live(bencher: divan::Bencher, n: usize) {
    let mut builder = Builder::default();
    distractors(&mut builder, n, true);
    chain(&mut builder, 8);
    builder.give("token");
    builder.action("use".into(), &["c8", "token"], &["used", "!token"], 1.0);
    bench(bencher, builder.goal(&["used", "token"]), None);
}

#[divan::bench(args = [4, 10, 20, 30])]
fn agent_first_plan(bencher: divan::Bencher, n: usize) {
    let (compiled, start) = agent(n.max(6));
    let steps = plan(&Problem::new(&compiled, start.clone())).plan().map(|plan| plan.steps.len());
    bench(bencher, (compiled, start), steps);
}

/// Planning again after the first step came out as expected.
#[divan::bench(args = [10, 20, 30])]
fn agent_replan(bencher: divan::Bencher, n: usize) {
    let (compiled, mut start) = agent(n);
    let outcome = plan(&Problem::new(&compiled, start.clone()));
    let first = outcome.plan().expect("a plan").steps[0].action;
    for &(fact, effect) in &compiled.domain().actions[first].effects {
        start.set(fact, if effect == Effect::Makes(true) { Truth::True } else { Truth::False });
    }
    let steps = outcome.plan().map(|plan| plan.steps.len() - 1);
    bench(bencher, (compiled, start), steps);
}

/// The same, when the program asks first whether the rest of the plan still stands.
#[divan::bench(args = [10, 20, 30])]
fn agent_continue(bencher: divan::Bencher, n: usize) {
    let (compiled, start) = agent(n);
    let first = plan(&Problem::new(&compiled, start.clone())).plan().expect("a plan").clone();
    let mut next = start.clone();
    for &(fact, effect) in &compiled.domain().actions[first.steps[0].action].effects {
        next.set(fact, if effect == Effect::Makes(true) { Truth::True } else { Truth::False });
    }
    assert!(continue_plan(&start, &first, &Problem::new(&compiled, next.clone())).is_some());
    bencher.bench(|| continue_plan(&start, &first, &Problem::new(&compiled, next.clone())));
}
