//! Counts instructions of planning, under callgrind: `benches/instructions.sh`.
//!
//! Each case is planned once to warm the allocator and once in [`measured`], which callgrind is told to count; the names are
//! printed in the order of the counts. Without callgrind this prints the names alone.

#[path = "support/planner.rs"]
mod domains;

use std::hint::black_box;
use std::io::Write;

use agent_run::planning::{continue_plan, plan};
use domains::{Case, FLAWS};

/// What is counted, by its name.
#[inline(never)]
fn measured(work: &dyn Fn()) {
    work();
}

fn count(name: String, work: impl Fn()) {
    work();
    writeln!(std::io::stdout(), "{name}").expect("stdout is open");
    measured(&work);
}

fn wanted(name: &str) -> bool {
    std::env::args().skip(1).filter(|word| word != "--bench").all(|word| name.starts_with(&word))
}

/// Plans a case, if its name begins with the word given on the command line.
fn case(name: String, make: impl Fn() -> Case) {
    if !wanted(&name) {
        return;
    }
    let case = make();
    let outcome = plan(&case.problem());
    assert_eq!(outcome.plan().map(|plan| plan.steps.len()), case.steps, "{name}: {outcome:?}");
    count(name, || drop(black_box(plan(&case.problem()))));
}

const LAYERS: [(usize, usize); 3] = [(6, 4), (10, 5), (20, 20)];

fn main() {
    for n in [10, 100, 1000] {
        case(format!("chain {n}"), || domains::chain_of(n));
    }
    for (k, m) in LAYERS {
        case(format!("layers {}", k * m), || domains::layers_of(k, m));
    }
    for (k, m) in LAYERS {
        case(format!("two_step_layers {}", 2 * k * m), || domains::two_step_layers_of(k, m));
    }
    for (name, live) in [("inert", false), ("live", true)] {
        for n in [100, 1000, 10_000] {
            case(format!("eight_among_{name} {n}"), || domains::eight_among(n, live));
        }
    }
    for n in [100, 1000, 10_000] {
        case(format!("eight_among_tempting {n}"), || domains::eight_among_tempting(n));
    }
    for flaw in FLAWS {
        for n in [10, 100, 1000] {
            case(format!("unsolvable_chain_{flaw:?} {n}"), || domains::unsolvable_chain(n, flaw));
        }
        for (k, m) in LAYERS {
            case(format!("unsolvable_layers_{flaw:?} {}", k * m), || domains::unsolvable_layers(k, m, flaw));
        }
        for (k, m) in LAYERS {
            let name = format!("unsolvable_two_step_layers_{flaw:?} {}", 2 * k * m);
            case(name, || domains::unsolvable_two_step_layers(k, m, flaw));
        }
        for n in [100, 1000, 10_000] {
            case(format!("unsolvable_among_live_{flaw:?} {n}"), || domains::unsolvable_among_live(n, flaw));
        }
    }
    for n in [6, 10, 20, 30] {
        case(format!("agent_first_plan {n}"), || domains::agent_of(n));
    }
    for n in [6, 10, 20, 30] {
        case(format!("agent_replan {n}"), || domains::agent_after_step(n).0);
    }
    for n in [6, 10, 20, 30] {
        let name = format!("agent_continue {n}");
        if !wanted(&name) {
            continue;
        }
        let (case, before, first) = domains::agent_after_step(n);
        count(name, || drop(black_box(continue_plan(&before, &first, &case.problem()))));
    }
}
