//! The search against the plainest one, on thousands of small random domains.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::super::domain::{Action, Domain, Effect, FactId, Goal};
use super::super::problem::{Limits, Problem};
use super::super::state::{State, Truth};
use super::super::validate::{replay, validate_in};
use super::*;

/// A random problem as plain data.
#[derive(Clone, Debug)]
struct Case {
    actions: Vec<RawAction>,
    start: Vec<u8>,
    goals: Vec<(Vec<(u32, bool)>, i8)>,
    doubted: Vec<(usize, u32)>,
}

#[derive(Clone, Debug)]
struct RawAction {
    pre: Vec<(u32, bool)>,
    effects: Vec<(u32, u8)>,
    cost: u8,
    value: i8,
    progress: Option<Vec<u32>>,
    once: bool,
}

fn raw_action(facts: u32) -> impl Strategy<Value = RawAction> {
    let pre = prop::collection::vec((0..facts, prop::bool::weighted(0.8)), 0..3);
    let effects = prop::collection::vec((0..facts, 0u8..8), 1..4);
    let progress = prop::option::weighted(0.4, prop::collection::vec(0..facts, 0..2));
    (pre, effects, 0u8..5, -2i8..3, progress, prop::bool::weighted(0.5))
        .prop_map(|(pre, effects, cost, value, progress, once)| RawAction { pre, effects, cost, value, progress, once })
}

fn case() -> impl Strategy<Value = Case> {
    (2u32..8).prop_flat_map(|facts| {
        let goal = (prop::collection::vec((0..facts, prop::bool::weighted(0.85)), 1..4), -2i8..4);
        (
            prop::collection::vec(raw_action(facts), 1..9),
            prop::collection::vec(0u8..8, facts as usize),
            prop::collection::vec(goal, 1..4),
            prop::collection::vec((0usize..9, 0..facts), 0..2),
        )
            .prop_map(|(actions, start, goals, doubted)| Case { actions, start, goals, doubted })
    })
}

impl Case {
    fn compile(&self) -> (super::super::domain::Compiled, State) {
        let mut domain = Domain::new();
        let facts: Vec<FactId> = (0..self.start.len()).map(|fact| domain.fact(&format!("f{fact}"))).collect();
        for (index, raw) in self.actions.iter().enumerate() {
            let mut action = Action::new(format!("a{index}"));
            action.pre = raw.pre.iter().map(|&(fact, value)| (facts[fact as usize], value)).collect();
            action.effects =
                raw.effects.iter().map(|&(fact, effect)| (facts[fact as usize], written(effect))).collect();
            action.cost = f64::from(raw.cost) / 10.0;
            action.value = f64::from(raw.value) / 10.0;
            action.needs_progress = raw.progress.is_some();
            action.progress_exempt = raw.progress.iter().flatten().map(|&fact| facts[fact as usize]).collect();
            if raw.once {
                let ran = domain.fact(&format!("ran{index}"));
                action.pre.push((ran, false));
                action.effects.push((ran, Effect::Makes(true)));
                action.progress_exempt.push(ran);
            }
            domain.actions.push(action);
        }
        for (index, (pre, value)) in self.goals.iter().enumerate() {
            let pre = pre.iter().map(|&(fact, value)| (facts[fact as usize], value)).collect();
            domain.goals.push(Goal { name: format!("g{index}"), pre, value: f64::from(*value) / 10.0 });
        }
        let mut start = State::all(domain.fact_count(), Truth::False);
        for (&fact, &truth) in facts.iter().zip(&self.start) {
            start.set(
                fact,
                [
                    Truth::False,
                    Truth::False,
                    Truth::False,
                    Truth::False,
                    Truth::True,
                    Truth::True,
                    Truth::Open,
                    Truth::Unknown,
                ][truth as usize % 8],
            );
        }
        // Marks may be set, open or undone too.
        if self.start[0] % 4 == 3 {
            for index in 0..self.actions.len() {
                if let Some(ran) = domain.fact_id(&format!("ran{index}")) {
                    start.set(ran, [Truth::True, Truth::Open, Truth::False][(index + self.goals.len()) % 3]);
                    let last = domain.actions.len() - 1;
                    if index % 2 == 0 {
                        domain.actions[last]
                            .effects
                            .push((ran, if index % 4 == 0 { Effect::Makes(false) } else { Effect::Opens }));
                    }
                }
            }
        }
        (domain.compile().expect("a good domain"), start)
    }
}

fn written(effect: u8) -> Effect {
    match effect {
        0 | 1 => Effect::Makes(false),
        2 => Effect::Opens,
        _ => Effect::Makes(true),
    }
}

fn run(cases: u32, test: impl Fn(Case) -> Result<(), TestCaseError>) {
    let config = Config {
        cases,
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(7),
        ..Config::default()
    };
    TestRunner::new(config).run(&case(), test).expect("every case holds");
}

#[test]
fn every_plan_is_the_one_that_an_exhaustive_search_finds() {
    run(6000, |case| {
        let (compiled, start) = case.compile();
        let mut problem = Problem::new(&compiled, start);
        problem.no_longer_assumed =
            case.doubted.iter().map(|&(action, fact)| (action % case.actions.len(), FactId(fact))).collect();
        let mut best: Option<Plan> = None;
        for goal in problem.goals() {
            let expected = reference::search(&problem, goal, usize::MAX).expect("no bound");
            match (plan_goal(&problem, goal), expected) {
                (Outcome::Plan(plan), Some(expected)) => {
                    prop_assert_eq!(&plan.actions(), &expected);
                    prop_assert_eq!(validate_in(&problem, &plan), Ok(()));
                    if best.as_ref().is_none_or(|best| plan.rank(best).is_lt()) {
                        best = Some(plan);
                    }
                }
                (Outcome::Unsolvable(_), None) => {}
                (found, expected) => prop_assert!(false, "found {found:?}, expected {expected:?}"),
            }
        }
        let found = plan(&problem);
        let found = found.plan().map(|plan| (plan.goal, plan.actions()));
        prop_assert_eq!(found, best.map(|plan| (plan.goal, plan.actions())));
        Ok(())
    });
}

#[test]
fn a_plan_that_is_continued_is_the_one_that_a_search_finds() {
    let continued = std::cell::Cell::new(0);
    run(6000, |case| {
        let (compiled, start) = case.compile();
        let mut before = Problem::new(&compiled, start);
        before.only_goals = Some(vec![0]);
        let Outcome::Plan(first) = plan(&before) else { return Ok(()) };
        let Some(step) = first.steps.first() else { return Ok(()) };
        let mut now = before.clone();
        step.assumes.iter().for_each(|&(fact, value)| now.start.set(fact, Truth::known(value)));
        for &(fact, effect) in &compiled.operators[step.action].effects {
            now.start.set(fact, super::super::validate::after(effect));
        }
        // Every other open fact turns out, one way or the other.
        for fact in (0..now.start.len() as u32).map(FactId) {
            if now.start.get(fact) == Truth::Open && case.start[0] % 2 == 0 {
                now.start.set(fact, Truth::known(!(fact.0 + u32::from(case.start[1])).is_multiple_of(3)));
            }
        }
        if let Some(rest) = continue_plan(&before.start, &first, &now) {
            continued.set(continued.get() + 1);
            prop_assert_eq!(plan(&now).plan().map(Plan::actions), Some(rest.actions()));
        }
        Ok(())
    });
    assert!(continued.get() > 500, "only {} plans were continued", continued.get());
}

#[test]
fn pairs_disprove_only_what_has_no_plan() {
    let disproved = std::cell::Cell::new(0);
    run(6000, |case| {
        let (compiled, start) = case.compile();
        let problem = Problem::new(&compiled, start);
        for goal in problem.goals() {
            let Some(task) = Task::new(&problem, goal, &Kept::default()) else { continue };
            if pairs::disprove(&task, &Limits::default()) {
                disproved.set(disproved.get() + 1);
                prop_assert_eq!(reference::search(&problem, goal, usize::MAX), Ok(None));
            }
        }
        Ok(())
    });
    assert!(disproved.get() > 10, "only {} were disproved", disproved.get());
}

#[test]
fn a_step_that_uses_up_what_a_later_one_needs_is_found_out() {
    // Twenty independent switches make a million states; in each of them the token is gone when the last step needs it.
    let mut domain = Domain::new();
    let [token, half, done] = ["token", "half", "done"].map(|text| domain.fact(text));
    let mut goal = vec![(done, true)];
    for number in 0..20 {
        let (on, other) = (domain.fact(&format!("on{number}")), domain.fact(&format!("other{number}")));
        for (name, fact) in [("on", on), ("other", other)] {
            let effects = vec![(on, Effect::Makes(fact == on)), (other, Effect::Makes(fact == other))];
            domain.actions.push(Action { effects, ..Action::new(format!("{name}{number}")) });
        }
        goal.push((if number % 2 == 0 { on } else { other }, true));
    }
    let uses = vec![(half, Effect::Makes(true)), (token, Effect::Makes(false))];
    domain.actions.push(Action { pre: vec![(token, true)], effects: uses, ..Action::new("use") });
    let pre = vec![(half, true), (token, true)];
    domain.actions.push(Action { pre, effects: vec![(done, Effect::Makes(true))], ..Action::new("finish") });
    domain.goals.push(Goal { name: "goal".into(), pre: goal, value: 0.0 });
    let compiled = domain.compile().expect("a good domain");
    let mut start = State::all(compiled.domain().fact_count(), Truth::False);
    start.set(token, Truth::True);
    let found = plan(&Problem::new(&compiled, start));
    assert!(matches!(found, Outcome::Unsolvable(Proof { expanded }) if expanded < 5000), "{found:?}");
}

#[test]
fn reordering_actions_changes_no_cost() {
    run(1000, |case| {
        let (compiled, start) = case.compile();
        let mut turned = compiled.domain().clone();
        turned.actions.reverse();
        turned.actions.iter_mut().for_each(|action| action.name = format!("renamed {}", action.name));
        let turned = turned.compile().expect("a good domain");
        for goal in 0..case.goals.len() {
            let account = |compiled| {
                let outcome = plan_goal(&Problem::new(compiled, start.clone()), goal);
                outcome.plan().map(|plan| (plan.cost.to_bits(), plan.assumed, plan.steps.len()))
            };
            prop_assert_eq!(account(&compiled), account(&turned));
        }
        Ok(())
    });
}

/// The same domain with other names, and its actions and facts declared in another order.
fn shuffled(of: &Domain, start: &State, seed: u64) -> (super::super::domain::Compiled, State) {
    let mut numbers = super::classical::Numbers(seed);
    let mut domain = Domain::new();
    let mut new = vec![FactId(0); of.fact_count()];
    for old in numbers.shuffled(of.fact_count()) {
        new[old] = domain.fact(&format!("renamed {}", (old as u64).wrapping_mul(seed | 1)));
    }
    let moved = |fact: FactId| new[fact.0 as usize];
    let pre = |pre: &[(FactId, bool)]| pre.iter().map(|&(fact, value)| (moved(fact), value)).collect();
    for old in numbers.shuffled(of.actions.len()) {
        let action = &of.actions[old];
        domain.actions.push(Action {
            name: format!("{:x} {old}", seed.rotate_left(old as u32)),
            pre: pre(&action.pre),
            effects: action.effects.iter().map(|&(fact, effect)| (moved(fact), effect)).collect(),
            progress_exempt: action.progress_exempt.iter().map(|&fact| moved(fact)).collect(),
            ..action.clone()
        });
    }
    domain.goals = of.goals.iter().map(|goal| Goal { pre: pre(&goal.pre), ..goal.clone() }).collect();
    let mut state = State::all(start.len(), Truth::False);
    (0..start.len() as u32).map(FactId).for_each(|fact| state.set(moved(fact), start.get(fact)));
    (domain.compile().expect("a good domain"), state)
}

#[test]
fn other_names_and_orders_change_no_cost_and_two_runs_give_one_plan() {
    let (seed, plans) = (std::cell::Cell::new(1u64), std::cell::Cell::new(0));
    run(2000, |case| {
        seed.set(seed.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        let (compiled, start) = case.compile();
        let (turned, turned_start) = shuffled(compiled.domain(), &start, seed.get());
        for goal in 0..case.goals.len() {
            let account = |compiled, start: &State| {
                let outcome = plan_goal(&Problem::new(compiled, start.clone()), goal);
                outcome.plan().map(|plan| (plan.cost.to_bits(), plan.assumed, plan.steps.len()))
            };
            let first = account(&compiled, &start);
            plans.set(plans.get() + usize::from(first.is_some()));
            prop_assert_eq!(first, account(&turned, &turned_start));
        }
        let (again, start_again) = case.compile();
        let plan = |compiled, start: &State| plan(&Problem::new(compiled, start.clone()));
        prop_assert_eq!(plan(&compiled, &start), plan(&again, &start_again));
        Ok(())
    });
    assert!(plans.get() > 500, "only {} goals were reached", plans.get());
}

#[test]
fn a_limit_is_not_a_proof() {
    // The eight facts must each be undone and redone like a counter, so the search is long.
    let mut domain = Domain::new();
    let facts: Vec<FactId> = (0..16).map(|fact| domain.fact(&format!("f{fact}"))).collect();
    for bit in 0..16 {
        let mut action = Action::new(format!("carry{bit}"));
        action.pre = facts[..bit].iter().map(|&fact| (fact, true)).chain([(facts[bit], false)]).collect();
        action.effects = facts[..bit].iter().map(|&fact| (fact, Effect::Makes(false))).collect();
        action.effects.push((facts[bit], Effect::Makes(true)));
        domain.actions.push(action);
    }
    let pre = facts.iter().map(|&fact| (fact, true)).collect();
    domain.goals.push(Goal { name: "full".into(), pre, value: 0.0 });
    let compiled = domain.compile().expect("a good domain");
    let mut problem = Problem::new(&compiled, State::all(16, Truth::False));
    problem.limits.stop = Some(&|| true);
    assert!(matches!(plan(&problem), Outcome::LimitReached(Reached { limit: Limit::Time, .. })));
    problem.limits = Limits { stop: None, memory_bytes_max: 4096 };
    assert!(matches!(plan(&problem), Outcome::LimitReached(Reached { limit: Limit::Memory, .. })));
}

#[test]
fn replays_refuse_what_is_no_plan() {
    let mut domain = Domain::new();
    let fact = domain.fact("f");
    domain.actions.push(Action {
        effects: vec![(fact, Effect::Makes(true))],
        needs_progress: true,
        ..Action::new("a")
    });
    domain.goals.push(Goal { name: "g".into(), pre: vec![(fact, true)], value: 0.0 });
    let compiled = domain.compile().expect("a good domain");
    let problem = Problem::new(&compiled, State::all(1, Truth::False));
    assert!(replay(&problem, 0, &[0]).is_ok());
    assert_eq!(replay(&problem, 0, &[]), Err(Fault::Requirement(0, (fact, true))));
    assert_eq!(replay(&problem, 0, &[0, 0]), Err(Fault::NoProgress(1)));
    assert_eq!(replay(&problem, 0, &[3]), Err(Fault::NoSuchAction(0)));
}

#[test]
#[ignore = "writes problems for tests/planner/fast_downward.py, which runs this"]
fn write_problems_for_fast_downward() {
    use proptest::strategy::ValueTree;
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("target/fast-downward");
    std::fs::create_dir_all(&folder).expect("a writable target folder");
    let config = Config { rng_seed: proptest::test_runner::RngSeed::Fixed(11), ..Config::default() };
    let mut runner = TestRunner::new(config);
    for number in 0..200 {
        let case = case().new_tree(&mut runner).expect("a case").current();
        let (compiled, start) = case.compile();
        write_problem(&folder, &format!("random-{number}"), &compiled, start);
    }
    for named in super::classical::problems() {
        write_problem(&folder, &named.name, &named.compiled, named.start);
    }
}

/// Writes a problem as PDDL, and the cost of its plan in the export's units.
fn write_problem(folder: &std::path::Path, name: &str, compiled: &crate::planning::Compiled, start: State) {
    let problem = Problem::new(compiled, start);
    let cost = match plan_goal(&problem, 0) {
        Outcome::Plan(plan) => {
            let units: u64 = plan.actions().iter().map(|&action| problem.amounts.units[action]).sum();
            (units * super::super::pddl::UNIT + plan.assumed as u64).to_string()
        }
        _ => "none".to_owned(),
    };
    let text = super::super::pddl::export(&problem, 0);
    let write = |kind: &str, text: &str| std::fs::write(folder.join(format!("{name}.{kind}")), text);
    write("domain.pddl", &text.domain).expect("a writable folder");
    write("problem.pddl", &text.problem).expect("a writable folder");
    write("cost", &cost).expect("a writable folder");
}
