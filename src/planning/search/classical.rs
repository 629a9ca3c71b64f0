//! Small grounded problems of the classical benchmark domains (blocks, gripper, logistics, miconic; International
//! Planning Competitions 1998 to 2002) and agent-like ones, to compare the planner with another optimal one.

use crate::planning::{Action, Compiled, Domain, Effect, FactId, Goal, Problem, State, Truth};

/// A problem with its name.
pub(super) struct Named {
    pub(super) name: String,
    pub(super) compiled: Compiled,
    pub(super) start: State,
}

/// Every problem, the same ones each time.
pub(super) fn problems() -> Vec<Named> {
    let mut all = Vec::new();
    for seed in 1..=4 {
        all.push(blocks(4, seed));
        all.push(logistics(2, seed));
        all.push(miconic(3, 5, seed));
        all.push(agent(4, 3, seed));
    }
    all.push(blocks(5, 7));
    all.extend([gripper(2), gripper(3), gripper(4)]);
    all
}

/// A builder over texts, which keeps the generators readable.
#[derive(Default)]
struct Sketch {
    domain: Domain,
    start: Vec<FactId>,
}

impl Sketch {
    fn holds(&mut self, fact: &str) {
        let fact = self.domain.fact(fact);
        self.start.push(fact);
    }

    fn action(&mut self, name: String, cost: f64, pre: &[String], makes: &[String], ends: &[String]) {
        let pre = pre.iter().map(|fact| (self.domain.fact(fact), true)).collect();
        // What an action both ends and makes holds afterwards, as in PDDL.
        let ends = ends.iter().filter(|fact| !makes.contains(fact)).map(|fact| (fact, false));
        let effects = makes.iter().map(|fact| (fact, true)).chain(ends);
        let effects = effects.map(|(fact, value)| (self.domain.fact(fact), Effect::Makes(value))).collect();
        self.domain.actions.push(Action { pre, effects, cost, ..Action::new(name) });
    }

    fn finish(mut self, name: String, goal: &[String]) -> Named {
        let pre = goal.iter().map(|fact| (self.domain.fact(fact), true)).collect();
        self.domain.goals.push(Goal { name: "goal".into(), pre, value: 0.0 });
        let mut start = State::all(self.domain.fact_count(), Truth::False);
        self.start.iter().for_each(|fact| start.set(*fact, Truth::True));
        let compiled = self.domain.compile().expect("a good domain");
        Named { name, compiled, start }
    }
}

/// Numbers that only look random (a linear congruential generator), so that problems stay the same.
pub(super) struct Numbers(pub(super) u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % bound
    }

    pub(super) fn shuffled(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        (1..count).rev().for_each(|at| order.swap(at, self.below(at + 1)));
        order
    }
}

fn facts<const N: usize>(texts: [String; N]) -> [String; N] {
    texts
}

fn blocks(count: usize, seed: u64) -> Named {
    let mut sketch = Sketch::default();
    let (on, table, clear) = (|a, b| format!("on {a} {b}"), |a| format!("table {a}"), |a: usize| format!("clear {a}"));
    let (hand, holding) = ("hand empty".to_owned(), |a: usize| format!("holding {a}"));
    for a in 0..count {
        let (down, held) = (facts([hand.clone(), clear(a), table(a)]), facts([holding(a)]));
        sketch.action(format!("pick up {a}"), 1.0, &down, &held, &down);
        sketch.action(format!("put down {a}"), 1.0, &held, &down, &held);
        for b in (0..count).filter(|b| *b != a) {
            let (stacked, apart) = (facts([hand.clone(), clear(a), on(a, b)]), facts([holding(a), clear(b)]));
            sketch.action(format!("stack {a} {b}"), 1.0, &apart, &stacked, &apart);
            sketch.action(format!("unstack {a} {b}"), 1.0, &stacked, &apart, &stacked);
        }
    }
    let mut numbers = Numbers(seed);
    let tower = |order: &[usize]| order.windows(2).map(|pair| on(pair[0], pair[1])).collect::<Vec<_>>();
    let (first, last) = (numbers.shuffled(count), numbers.shuffled(count));
    tower(&first).iter().for_each(|fact| sketch.holds(fact));
    sketch.holds(&clear(first[0]));
    sketch.holds(&table(first[count - 1]));
    sketch.holds(&hand);
    sketch.finish(format!("blocks-{count}-{seed}"), &tower(&last))
}

fn gripper(balls: usize) -> Named {
    let mut sketch = Sketch::default();
    let (robot, at) = (|room: usize| format!("robot {room}"), |ball: usize, room: usize| format!("at {ball} {room}"));
    let (free, carry) =
        (|hand: usize| format!("free {hand}"), |ball: usize, hand: usize| format!("carry {ball} {hand}"));
    for room in 0..2 {
        sketch.action(format!("go to {}", 1 - room), 1.0, &[robot(room)], &[robot(1 - room)], &[robot(room)]);
        for (ball, hand) in (0..balls).flat_map(|ball| [(ball, 0), (ball, 1)]) {
            let (loose, held) = ([at(ball, room), free(hand)], [carry(ball, hand)]);
            let here = |more: &[String]| [&[robot(room)], more].concat();
            sketch.action(format!("take {ball} {room} {hand}"), 1.0, &here(&loose), &held, &loose);
            sketch.action(format!("drop {ball} {room} {hand}"), 1.0, &here(&held), &loose, &held);
        }
    }
    sketch.holds(&robot(0));
    (0..2).for_each(|hand| sketch.holds(&free(hand)));
    (0..balls).for_each(|ball| sketch.holds(&at(ball, 0)));
    let goal: Vec<String> = (0..balls).map(|ball| at(ball, 1)).collect();
    sketch.finish(format!("gripper-{balls}"), &goal)
}

/// Two cities of two places each, the first an airport; a truck in each and one plane.
fn logistics(packages: usize, seed: u64) -> Named {
    let mut sketch = Sketch::default();
    let (at, inside) =
        (|what: &str, place: usize| format!("{what} at {place}"), |p: usize, what: &str| format!("p{p} in {what}"));
    let reach = [("truck0", [0, 1]), ("truck1", [2, 3]), ("plane", [0, 2])];
    for (vehicle, places) in reach {
        for (from, to) in [(places[0], places[1]), (places[1], places[0])] {
            let cost = if vehicle == "plane" { 3.0 } else { 1.0 };
            sketch.action(
                format!("{vehicle} {from} {to}"),
                cost,
                &[at(vehicle, from)],
                &[at(vehicle, to)],
                &[at(vehicle, from)],
            );
        }
        for (p, place) in (0..packages).flat_map(|p| places.map(|place| (p, place))) {
            let (out, loaded) = ([at(&format!("p{p}"), place)], [inside(p, vehicle)]);
            let here = |more: &[String]| [&[at(vehicle, place)], more].concat();
            sketch.action(format!("load p{p} {vehicle} {place}"), 1.0, &here(&out), &loaded, &out);
            sketch.action(format!("unload p{p} {vehicle} {place}"), 1.0, &here(&loaded), &out, &loaded);
        }
    }
    let mut numbers = Numbers(seed);
    for (vehicle, places) in reach {
        sketch.holds(&at(vehicle, places[numbers.below(2)]));
    }
    let mut goal = Vec::new();
    for p in 0..packages {
        sketch.holds(&at(&format!("p{p}"), numbers.below(4)));
        goal.push(at(&format!("p{p}"), numbers.below(4)));
    }
    sketch.finish(format!("logistics-{packages}-{seed}"), &goal)
}

fn miconic(passengers: usize, floors: usize, seed: u64) -> Named {
    let mut sketch = Sketch::default();
    let (lift, boarded, served) =
        (|floor: usize| format!("lift {floor}"), |p: usize| format!("boarded {p}"), |p: usize| format!("served {p}"));
    for (from, to) in (0..floors).flat_map(|from| (0..floors).map(move |to| (from, to))).filter(|(from, to)| from != to)
    {
        let cost = from.abs_diff(to) as f64 * 0.5;
        sketch.action(format!("lift {from} {to}"), cost, &[lift(from)], &[lift(to)], &[lift(from)]);
    }
    let mut numbers = Numbers(seed);
    for p in 0..passengers {
        let (origin, aim) = (numbers.below(floors), numbers.below(floors));
        sketch.action(format!("board {p}"), 0.0, &[lift(origin)], &[boarded(p)], &[]);
        sketch.action(format!("leave {p}"), 0.0, &[lift(aim), boarded(p)], &[served(p)], &[boarded(p)]);
    }
    sketch.holds(&lift(0));
    let goal: Vec<String> = (0..passengers).map(served).collect();
    sketch.finish(format!("miconic-{passengers}-{floors}-{seed}"), &goal)
}

/// Typed objects made from one another: layers of types, several producers of each with differing costs, each action
/// once, and one fact a layer that only might come.
fn agent(layers: usize, producers: usize, seed: u64) -> Named {
    let mut sketch = Sketch::default();
    let mut numbers = Numbers(seed);
    let (has, ran) = (|layer: usize, which: usize| format!("has T{layer}{which}"), |name: &str| format!("ran {name}"));
    for layer in 1..=layers {
        for which in 0..producers {
            let name = format!("make {layer}{which}");
            let needs = [has(layer - 1, numbers.below(2)), has(layer - 1, numbers.below(2))];
            let cost = (1 + numbers.below(9)) as f64 / 10.0;
            sketch.action(name.clone(), cost, &needs, &[has(layer, which % 2), ran(&name)], &[]);
            let (done, open) = (sketch.domain.fact(&ran(&name)), sketch.domain.fact(&has(layer, 1 - which % 2)));
            let Some(action) = sketch.domain.actions.last_mut() else { continue };
            action.pre.push((done, false));
            action.pre.dedup();
            if numbers.below(3) == 0 {
                action.effects.push((open, Effect::Opens));
            }
        }
    }
    (0..2).for_each(|which| sketch.holds(&has(0, which)));
    sketch.finish(format!("agent-{layers}-{producers}-{seed}"), &[has(layers, 0), has(layers, 1)])
}

#[test]
fn classical_problems_have_the_costs_that_are_known_of_them() {
    let cost = |named: Named| {
        let problem = Problem::new(&named.compiled, named.start.clone());
        crate::planning::plan_goal(&problem, 0).plan().map(|plan| plan.cost)
    };
    // Two balls go in one trip: take, take, go, drop, drop; two more need the way back and another trip.
    assert_eq!([2, 4].map(|balls| cost(gripper(balls))), [Some(5.0), Some(11.0)]);
    assert!(problems().into_iter().filter(|named| !named.name.starts_with("agent")).all(|named| cost(named).is_some()));
}
