//! Planning times on generated domains: `cargo bench --bench planner`. Figures and their meaning: `docs/performance.md`.
//! Instructions of the same cases: `benches/instructions.sh`.

#[path = "support/planner.rs"]
mod domains;

use agent_run::planning::{Outcome, continue_plan, plan};
use domains::{Case, FLAWS, Flaw};

fn main() {
    divan::main();
}

/// Plans, after checking once that the plan is as long as it must be.
fn bench(bencher: divan::Bencher, case: Case) {
    let outcome = plan(&case.problem());
    assert_eq!(outcome.plan().map(|plan| plan.steps.len()), case.steps, "{outcome:?}");
    assert!(!matches!(outcome, Outcome::LimitReached(_)));
    bencher.bench(|| plan(&case.problem()));
}

#[divan::bench(args = [10, 100, 1000])]
fn chain(bencher: divan::Bencher, n: usize) {
    bench(bencher, domains::chain_of(n));
}

#[divan::bench(args = [(6, 4), (10, 5), (20, 20)])]
fn layers(bencher: divan::Bencher, (k, m): (usize, usize)) {
    bench(bencher, domains::layers_of(k, m));
}

#[divan::bench(args = [(6, 4), (10, 5), (20, 20)])]
fn two_step_layers(bencher: divan::Bencher, (k, m): (usize, usize)) {
    bench(bencher, domains::two_step_layers_of(k, m));
}

#[divan::bench(args = [100, 1000, 10_000])]
fn eight_among_inert(bencher: divan::Bencher, n: usize) {
    bench(bencher, domains::eight_among(n, false));
}

#[divan::bench(args = [100, 1000, 10_000])]
fn eight_among_live(bencher: divan::Bencher, n: usize) {
    bench(bencher, domains::eight_among(n, true));
}

#[divan::bench(args = [100, 1000, 10_000])]
fn eight_among_tempting(bencher: divan::Bencher, n: usize) {
    bench(bencher, domains::eight_among_tempting(n));
}

#[divan::bench(args = flawed([10, 100, 1000]))]
fn unsolvable_chain(bencher: divan::Bencher, (flaw, n): (Flaw, usize)) {
    bench(bencher, domains::unsolvable_chain(n, flaw));
}

#[divan::bench(args = flawed([(6, 4), (10, 5), (20, 20)]))]
fn unsolvable_layers(bencher: divan::Bencher, (flaw, (k, m)): (Flaw, (usize, usize))) {
    bench(bencher, domains::unsolvable_layers(k, m, flaw));
}

#[divan::bench(args = flawed([(6, 4), (10, 5), (20, 20)]))]
fn unsolvable_two_step_layers(bencher: divan::Bencher, (flaw, (k, m)): (Flaw, (usize, usize))) {
    bench(bencher, domains::unsolvable_two_step_layers(k, m, flaw));
}

#[divan::bench(args = flawed([100, 1000, 10_000]))]
fn unsolvable_among_live(bencher: divan::Bencher, (flaw, n): (Flaw, usize)) {
    bench(bencher, domains::unsolvable_among_live(n, flaw));
}

fn flawed<T: Copy>(sizes: [T; 3]) -> Vec<(Flaw, T)> {
    FLAWS.into_iter().flat_map(|flaw| sizes.map(|size| (flaw, size))).collect()
}

#[divan::bench(args = [6, 10, 20, 30])]
fn agent_first_plan(bencher: divan::Bencher, n: usize) {
    bench(bencher, domains::agent_of(n));
}

/// Planning again after the first step came out as expected.
#[divan::bench(args = [6, 10, 20, 30])]
fn agent_replan(bencher: divan::Bencher, n: usize) {
    bench(bencher, domains::agent_after_step(n).0);
}

/// The same, when the program asks first whether the rest of the plan still stands.
#[divan::bench(args = [10, 20, 30])]
fn agent_continue(bencher: divan::Bencher, n: usize) {
    let (case, before, first) = domains::agent_after_step(n);
    assert!(continue_plan(&before, &first, &case.problem()).is_some());
    bencher.bench(|| continue_plan(&before, &first, &case.problem()));
}
