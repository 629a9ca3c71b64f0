//! Rendering, evaluation and truth, on values that processes have; and both halves on arbitrary text.

use super::check::tests::{scope, types};
use super::*;
use crate::value::Types;
use proptest::prelude::*;
use serde_json::{Value as Json, json};
use std::sync::Arc;

/// Variables over a blackboard of a few objects.
struct Board {
    vars: MapVars,
    unknown: Vec<&'static str>,
}

impl Vars for Board {
    fn get(&self, name: &str) -> Var {
        if self.unknown.contains(&name) { Var::Unknown } else { self.vars.get(name) }
    }
    fn last(&self, type_name: &str) -> Var {
        if type_name == "Order" { self.vars.get("order") } else { Var::Undefined }
    }
    fn all(&self, type_name: &str) -> Vec<minijinja::Value> {
        match self.last(type_name) {
            Var::Value(value) => vec![value],
            Var::Undefined | Var::Unknown => Vec::new(),
        }
    }
    fn ran(&self, action: &str) -> bool {
        action == "find_news"
    }
    fn now(&self) -> String {
        "2026-01-02T03:04:05Z".to_owned()
    }
}

fn order() -> Json {
    json!({
        "days": 3, "id": "A1", "tags": ["x", "y"], "home": {"street": "S"}, "extra": {"k": "v"}, "note": null,
    })
}

fn board(templates: &Arc<Templates>) -> Board {
    let value = |name: &str, json: Json| match templates.types().id(name) {
        Some(id) => object_value(templates, id, &Arc::new(json)),
        None => minijinja::Value::UNDEFINED,
    };
    let news = json!({"stories": [{"title": "T1", "score": 0.5}, {"title": "T2", "score": 2.0, "url": "u"}]});
    let vars = MapVars::default()
        .with("order", value("Order", order()))
        .with("star_person", value("StarPerson", json!({"name": "Ann", "sign": "leo"})))
        .with("news", value("News", news))
        .with("animal", value("Animal", json!({"type": "Frog", "leaps": 2})))
        .with("summary", value("Summary", json!("a b c")))
        .with("free", value("Free", json!({"z": 1, "a": [true, null]})))
        .with("given", value("Given", json!({"days": 3})))
        .with("orders", list_value(vec![value("Order", order())]))
        .with("config", from_json(&json!({"story_count": 3, "url": "http://h"})))
        .with("flag", true)
        .with("nothing", ());
    Board { vars, unknown: vec!["urgent"] }
}

fn builder() -> TemplatesBuilder {
    let mut builder = TemplatesBuilder::new(Arc::new(types()));
    for (name, source) in [
        ("a/head.jinja", "[{{ order.id }}]\n"),
        ("a/bad.jinja", "line\n{{ order.nope.x }}"),
        ("base.jinja", "<{% block body %}base{% endblock %}>"),
        ("macros.jinja", "{% macro f(x, y='d') %}{{ x }}-{{ y }}{% endmacro %}"),
        ("endless.jinja", "{% include 'endless.jinja' %}"),
    ] {
        builder.file(name, source);
    }
    builder
}

fn render(text: &str) -> Result<String, RenderError> {
    let mut builder = builder();
    let id = builder.template(text).unwrap_or_else(|fault| panic!("{text}: {fault:?}"));
    let templates = builder.build();
    templates.render(id, &board(&templates))
}

fn eval(text: &str) -> Result<Json, RenderError> {
    let mut builder = builder();
    let id = builder.expr(text).unwrap_or_else(|fault| panic!("{text}: {fault:?}"));
    let templates = builder.build();
    templates.eval(id, &board(&templates))
}

fn truth(text: &str) -> Truth {
    let mut builder = builder();
    let id = builder.expr(text).unwrap_or_else(|fault| panic!("{text}: {fault:?}"));
    let templates = builder.build();
    templates.truth(id, &board(&templates))
}

#[test]
fn text_is_rendered() {
    for (text, expected) in [
        ("Hi {{ star_person.name }}\n", "Hi Ann"),
        ("a\n\n", "a\n"),
        ("{{ order.home }} {{ order.tags }} {{ order.days }} {{ flag }}", r#"{"street": "S"} ["x", "y"] 3 true"#),
        ("{{ order }}", r#"{"id": "A1", "days": 3, "tags": ["x", "y"], "home": {"street": "S"}, "extra": {"k": "v"}}"#),
        ("{{ order.label }}{{ order.label is defined }}", "A1 3true"),
        ("{% for s in news.stories %}\n  {{ loop.index }} {{ s.title }}\n{% endfor %}\nend", "  1 T1\n  2 T2\nend"),
        ("  {% if flag %}\n  yes\n  {% endif %}\nend", "  yes\nend"),
        ("{% include 'a/head.jinja' %}!", "[A1]!"),
        ("{% set k = 'head' %}{% include 'a/' ~ k ~ '.jinja' %}", "[A1]"),
        ("{% extends 'base.jinja' %}{% block body %}{{ super() }}+{{ order.id }}{% endblock %}", "<base+A1>"),
        ("{% import 'macros.jinja' as m %}{{ m.f(1) }}{% from 'macros.jinja' import f %}{{ f('a', y=2) }}", "1-da-2"),
        ("{{ order.note | default('none') }} {{ nothing | default('n') }} {{ '' | default('e', true) }}", "none n e"),
        ("{% if order.note is none and order.note is not defined %}x{% endif %}{{ order.note is none }}", "xtrue"),
        ("{{ 'a b/c&é' | urlencode }} {{ {'q': 'a b', 'n': 1} | urlencode }}", "a%20b%2Fc%26%C3%A9 q=a%20b&n=1"),
        ("{{ order.extra | tojson }} {{ '<a>' | tojson }}", r#"{"k": "v"} "<a>""#),
        ("{{ {'a': [1]} | tojson(indent=2) }}", "{\n  \"a\": [\n    1\n  ]\n}"),
        ("{{ [1, true, 'x'] | join(', ') }} {{ news.stories | join('+', attribute='title') }}", "1, true, x T1+T2"),
        ("{{ order.id ~ order.home ~ order.tags }}", r#"A1{"street": "S"}["x", "y"]"#),
        ("{{ 'f: ' ~ flag ~ (not flag) ~ [true, 1] ~ ('y' if not flag) }}", "f: truefalse[true, 1]"),
        ("{{ ', '.join(order.tags) }} {{ order.id.lower() }} {{ order.extra.get('k') }}", "x, y a1 v"),
        (
            "{{ last('Order').id }} {{ count('Order') }} {{ has('Story') }} {{ ran('find_news') }} {{ now() }}",
            "A1 1 false true 2026-01-02T03:04:05Z",
        ),
        ("{% for o in all('Order') %}{{ o.label }}{% endfor %}", "A1 3"),
        ("{{ 'x' if false }}|{{ order.id if flag }}", "|A1"),
        ("{% if order.express %}e{% else %}n{% endif %}", "n"),
        ("{{ free }} {{ animal.leaps }} {{ animal.type }}", r#"{"z": 1, "a": [true, null]} 2 Frog"#),
        ("{% for k, v in order.extra | items %}{{ k }}={{ v }}{% endfor %}", "k=v"),
        ("<b>{{ '<i>' }}</b>", "<b><i></b>"),
        ("{{ 'one two three four' | truncate(12) }} {{ 'a  b' | wordcount }}", "one two... 2"),
        ("{{ news.stories[0].score }} {{ 4 / 2 }} {{ 7 // 2 }} {{ 10 ** 2 }}", "0.5 2.0 3 100"),
        ("{{ order == order }} {{ order in orders }}", "true true"),
    ] {
        assert_eq!(render(text).as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn what_is_missing_is_never_an_empty_string() {
    for (text, excerpt) in [
        ("a {{ order.express }}", "order.express"),
        ("{{ missing }}", "missing"),
        ("{{ missing.x }}", "missing.x"),
        ("{{ nothing }}", "nothing"),
        ("{{ order.note | upper }}", "order.note | upper"),
        ("{% for x in missing %}{% endfor %}", "missing"),
        ("{{ [order.note] }}", "[order.note]"),
        ("{{ 'a' ~ missing }}", "missing"),
        ("{{ flag ~ 'a' ~ order.note }} {{ flag ~ 'b' }}", "order.note"),
        ("{{ 'a' ~ nothing }}", "nothing"),
        ("{{ flag ~ 'a' }}{{ order.days + 'x' }}", "order.days + 'x'"),
        ("{{ order.days + 'x' }}", "order.days + 'x'"),
    ] {
        let error = render(text).unwrap_err();
        let found = error.excerpt.clone().unwrap_or_default();
        assert!(found.contains(excerpt) || excerpt.contains(&found), "{text}: {error:?}");
        assert_eq!(error.file, None, "{text}");
    }
    let error = render("{% include 'a/bad.jinja' %}").unwrap_err();
    assert_eq!((error.file.as_deref(), error.is_undefined), (Some("a/bad.jinja"), true));
    assert_eq!(error.excerpt.as_deref(), Some("order.nope.x"));
    let error = render("{{ order.days + 'x' }}{{ config }}").unwrap_err();
    assert_eq!(error.values.len(), 1);
    assert!(error.values[0].1.starts_with("{\"id\": \"A1\""), "{error}");
}

#[test]
fn exprs_keep_types_and_undefined_results_are_errors() {
    assert_eq!(eval("order.days * 2"), Ok(json!(6)));
    assert_eq!(eval("0.5"), Ok(json!(0.5)));
    assert_eq!(eval("order.tags"), Ok(json!(["x", "y"])));
    assert_eq!(eval("{'a': {'b': order.home}}"), Ok(json!({"a": {"b": {"street": "S"}}})));
    assert_eq!(eval("order.note | default(none)"), Ok(Json::Null));
    assert_eq!(eval("order.label ~ '!'"), Ok(json!("A1 3!")));
    assert_eq!(
        eval("order"),
        Ok(json!({"id": "A1", "days": 3, "tags": ["x", "y"], "home": {"street": "S"}, "extra": {"k": "v"}}))
    );
    for text in ["missing", "order.note", "order.note.x", "1 if false", "range", "[missing]"] {
        assert!(eval(text).is_err(), "{text}");
    }
    let error = eval("order.days > missing.x").unwrap_err();
    assert_eq!((error.excerpt.as_deref(), error.range), (Some("missing.x"), Some(13..22)));
}

#[test]
fn conditions_have_three_values() {
    use Truth::{False, True, Unknown};
    for (text, expected) in [
        ("order.days == 3", True),
        ("order.days > 3", False),
        ("missing.days > 3", Unknown),
        ("missing", Unknown),
        ("not missing", Unknown),
        ("urgent", Unknown),
        ("not urgent", Unknown),
        ("urgent and order.days > 30", False),
        ("urgent and order.days == 3", Unknown),
        ("urgent or order.days == 3", True),
        ("urgent or order.days > 30", Unknown),
        ("missing.x > 1 or flag", True),
        ("not (missing.x > 1 and flag)", Unknown),
        ("not (missing.x > 1 and not flag)", True),
        ("missing is defined and missing.x > 1", False),
        ("missing is not defined or missing.x > 1", True),
        ("missing is none", True),
        ("order.note is none", True),
        ("order.note is not none", False),
        ("order.express", Unknown),
        ("order.express | default(false)", False),
        ("order.express == true", Unknown),
        ("has('Story')", False),
        ("has('Order') and last('Order').days == 3", True),
        ("last('Story').score > 1", Unknown),
        ("count('Story') == 0", True),
        ("ran('find_news') and not ran('other')", True),
        ("'x' in order.tags", True),
        ("'x' in missing.tags", Unknown),
        ("true", True),
        ("0", False),
        ("(flag if order.days else missing)", True),
    ] {
        assert_eq!(truth(text), expected, "{text}");
    }
}

#[test]
fn nothing_runs_for_ever_or_without_bound() {
    let long = "{% for a in range(9999) %}{% for b in range(9999) %}{{ 'x' }}{% endfor %}{% endfor %}";
    assert!(render(long).unwrap_err().message.contains("too many steps"));
    let big = "{% set s = 'x' * 100000 %}{% for a in range(1000) %}{{ s }}{% endfor %}";
    assert!(render(big).unwrap_err().message.contains("longer than"));
    assert!(render("{% include 'endless.jinja' %}").is_err());
    assert!(render("{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}").is_err());
    let mut builder = builder();
    assert!(builder.template("{% for x in [1] %}{{ loop.cycle() }}{% endfor %}").is_err());
    assert!(builder.template("{% for x in [1] %}{{ loop.cycle(*[]) }}{% endfor %}").is_err());
    assert!(builder.template("{% import 'macros.jinja' as 1 %}").is_err());
    assert!(builder.template("{% import 'macros.jinja' as a ~ b %}").is_err());
    for name in ["../secret", "/etc/passwd", "a/../a/head.jinja"] {
        assert!(render(&format!("{{% include '{name}' %}}")).is_err(), "{name}");
    }
}

#[test]
fn the_deepest_texts_that_pass_exhaust_no_stack() {
    let types = types();
    let scope = scope(&types);
    let texts = [
        format!("{}order.days{}", "(".repeat(70), ")".repeat(70)),
        format!("{}order.express", "not ".repeat(240)),
        vec!["order.days"; 110].join(" + "),
        format!("order.id{}", " | upper".repeat(230)),
        format!("free{}", ".a".repeat(240)),
        format!("{}1{}", "[".repeat(70), "]".repeat(70)),
        format!("{}order.days", "-".repeat(120)),
        format!("{}1", "1 if flag else ".repeat(60)),
    ];
    for text in texts {
        assert!(ast::parse_expr(&text).is_ok(), "{text}");
        check_expr(&types, &scope, &text);
        resolved_form(&types, &scope, &text);
        let _ = (eval(&text).is_ok(), truth(&text));
    }
    let nested = format!("{}x{}", "{% if flag %}".repeat(70), "{% endif %}".repeat(70));
    assert!(check_template(&Files::new(), &types, &scope, &nested).findings.len() <= 70);
    assert_eq!(render(&nested).as_deref(), Ok("x"));
    let chain = format!("{{% if missing %}}{}{{% endif %}}", "{% elif missing %}".repeat(100));
    check_template(&Files::new(), &types, &scope, &chain);
    assert!(render(&chain).is_ok());
}

#[test]
fn self_is_a_variable() {
    let mut builder = builder();
    let id = builder.template("{{ self.name }}").unwrap();
    let templates = builder.build();
    let vars = MapVars::default().with("self", from_json(&json!({"name": "S"})));
    assert_eq!(templates.render(id, &vars).as_deref(), Ok("S"));
}

#[test]
fn computed_members_that_refer_to_themselves_end() {
    let mut types = Types::with_built_ins();
    let computed = [("a".to_owned(), "b".to_owned()), ("b".to_owned(), "a ~ 'x'".to_owned())].into();
    let object = crate::value::ObjectDef { computed, open: crate::value::Open::Any, ..Default::default() };
    let id = types.insert(crate::value::TypeDef::object("Loop", object));
    let mut builder = TemplatesBuilder::new(Arc::new(types));
    let template = builder.template("{{ x.a }}").unwrap();
    let templates = builder.build();
    let value = object_value(&templates, id, &Arc::new(json!({})));
    let error = templates.render(template, &MapVars::default().with("x", value)).unwrap_err();
    assert!(error.message.contains("refers to itself"), "{error}");
}

#[test]
fn equal_texts_share_an_id_and_templates_are_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Templates>();
    let mut builder = builder();
    assert_eq!(builder.template("{{ a }}").unwrap(), builder.template("{{ a }}").unwrap());
    assert_eq!(builder.expr("a").unwrap(), builder.expr("a").unwrap());
    assert_eq!(builder.expr("a &&").unwrap_err().code, "expr-syntax");
}

/// Pieces that texts near to templates are made of.
fn near_template() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => proptest::sample::select(vec![
            "{{ ", " }}", "{% ", " %}", "{%- ", " -%}", "{# ", " #}", "for ", "x", " in ", "order", ".days", ".tags", "[0]", "[1:2]",
            "if ", "else", "elif ", "endif", "endfor", "set ", " = ", "1", "'a'", "\"", "(", ")", "[", "]", "{", "}", ",", ":", "|",
            "upper", "map(attribute='x')", "is ", "defined", "not ", "and ", "or ", "~", "+", "-", "*", "**", "//", "<", "==", "!", "&&", "?",
            "block b", "endblock", "macro f(x)", "endmacro", "f(1)", "call ", "endcall", "include 'a/head.jinja'", "extends 'base.jinja'",
            "import 'macros.jinja' as m", "from 'macros.jinja' import f", "loop", ".index", "super()", "last('Order')", "now()", "raw", "endraw",
            "filter upper", "endfilter", "with x = 1", "endwith", "recursive", "é", "\n", " ", "caller()", "namespace(a=1)", "range(3)",
            "groupby('score')", "do ", "autoescape true", "endautoescape", "break", "continue", "%", "none", ".0", "1.5e3", "\\",
        ])
        .prop_map(str::to_owned),
        1 => ".{0,3}",
    ];
    proptest::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

/// Simple expressions over the scope of the tests, most of them right.
fn expression() -> impl Strategy<Value = String> {
    let leaf = proptest::sample::select(vec![
        "order.days",
        "order.id",
        "order.note",
        "order.tags",
        "order.home.street",
        "order.home.city",
        "order.express",
        "star_person.age",
        "star_person.sign",
        "news.stories",
        "news.stories[0].title",
        "news.stories[1].url",
        "draft.title",
        "draft",
        "config.story_count",
        "summary",
        "given.days",
        "animal.leaps",
        "order.label",
        "'x'",
        "2",
        "true",
        "order.extra.k",
        "order.extra.z",
        "last('Order').id",
        "free.z",
    ])
    .prop_map(str::to_owned);
    leaf.prop_recursive(3, 16, 3, |inner| {
        let two = (inner.clone(), inner.clone());
        let three = (inner.clone(), inner.clone(), inner.clone());
        prop_oneof![
            (two.clone(), proptest::sample::select(vec!["+", "~", "*", "==", "<", "and", "or", "in"]))
                .prop_map(|((a, b), op)| format!("({a} {op} {b})")),
            (
                inner.clone(),
                proptest::sample::select(vec![
                    "upper",
                    "length",
                    "default('d')",
                    "first",
                    "join(',')",
                    "string",
                    "tojson",
                    "list"
                ])
            )
                .prop_map(|(a, filter)| format!("({a} | {filter})")),
            three.prop_map(|(a, b, c)| format!("({a} if {b} else {c})")),
            two.clone().prop_map(|(a, b)| format!("({a} if {a} is defined else {b})")),
            inner.clone().prop_map(|a| format!("(not {a})")),
            inner.clone().prop_map(|a| format!("({a} is none)")),
            two.prop_map(|(a, b)| format!("[{a}, {b}]")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_the_check_or_a_rendering_panic(text in near_template()) {
        let types = types();
        let files = Files::new();
        let checked = check_template(&files, &types, &scope(&types), &text);
        for finding in &checked.findings {
            prop_assert!(text.get(finding.place.range.clone()).is_some(), "{:?}", finding);
        }
        let checked = check_expr(&types, &scope(&types), &text);
        for finding in &checked.findings {
            prop_assert!(text.get(finding.place.range.clone()).is_some(), "{:?}", finding);
        }
        split_not(&text);
        resolved_form(&types, &scope(&types), &text);
        let mut builder = builder();
        let template = builder.template(&text).ok();
        let expr = builder.expr(&text).ok();
        let data = builder.text_data(&text).ok();
        let templates = builder.build();
        let board = board(&templates);
        template.map(|id| templates.render(id, &board).is_ok());
        expr.map(|id| (templates.eval(id, &board).is_ok(), templates.truth(id, &board)));
        data.map(|data| templates.render_data(&data, &board).is_ok());
    }

    #[test]
    fn what_the_check_passes_is_never_undefined_at_run_time(text in expression()) {
        let types = types();
        let scope = scope(&types);
        let text = format!("{{{{ {text} }}}}");
        let checked = check_template(&Files::new(), &types, &scope, &text);
        if checked.findings.is_empty() {
            let mut builder = builder();
            let id = builder.template(&text).unwrap();
            let templates = builder.build();
            let error = templates.render(id, &board(&templates)).err();
            // What is not known is left to run time.
            let known = !text.contains("free") && !text.contains("label") && !text.contains("| first");
            prop_assert!(!known || error.as_ref().is_none_or(|error| !error.is_undefined), "{text}: {error:?}");
        }
    }
}
