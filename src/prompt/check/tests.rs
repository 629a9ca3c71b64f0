//! Cases as data: a scope, texts, and what is found under which characters.

use super::*;
use crate::value::{Constraints, Field, ObjectDef, Open, Shape, ShapeKind, TypeDef, TypeKind};
use indexmap::IndexSet;
use serde_json::json;
use std::sync::Arc;

fn field(kind: ShapeKind, required: bool) -> Field {
    Field { shape: Shape::new(kind), required }
}

fn object(fields: &[(&str, ShapeKind, bool)]) -> ObjectDef {
    let fields = fields.iter().map(|(name, kind, required)| ((*name).to_owned(), field(kind.clone(), *required)));
    ObjectDef { fields: fields.collect(), ..ObjectDef::default() }
}

/// Types of a small domain.
pub(in crate::prompt) fn types() -> Types {
    let mut types = Types::with_built_ins();
    let signs = ["aries", "leo", "scorpio", "pisces"].map(serde_json::Value::from).to_vec();
    let string = ShapeKind::String;
    let list = |kind| ShapeKind::List(Box::new(Shape::new(kind)));
    types.insert(TypeDef::object(
        "StarPerson",
        object(&[
            ("name", string.clone(), true),
            ("sign", ShapeKind::Enum(signs), true),
            ("age", ShapeKind::Integer, false),
        ]),
    ));
    let story = types.insert(TypeDef::object(
        "Story",
        object(&[("title", string.clone(), true), ("score", ShapeKind::Number, true), ("url", ShapeKind::Uri, false)]),
    ));
    types.insert(TypeDef::object("News", object(&[("stories", list(ShapeKind::Named(story)), true)])));
    let address = object(&[("street", string.clone(), true), ("city", string.clone(), false)]);
    let mut order = object(&[
        ("id", string.clone(), true),
        ("days", ShapeKind::Integer, true),
        ("express", ShapeKind::Boolean, false),
        ("tags", list(string.clone()), true),
        ("home", ShapeKind::Object(Box::new(address)), true),
        ("extra", ShapeKind::Map(Box::new(Shape::new(string.clone()))), true),
        ("note", string.clone(), false),
    ]);
    order.computed.insert("label".to_owned(), "id ~ ' ' ~ days".to_owned());
    types.insert(TypeDef::object("Order", order));
    let animal = types.insert(TypeDef { is_abstract: true, ..TypeDef::object("Animal", ObjectDef::default()) });
    for (name, own) in [("Frog", "leaps"), ("Dog", "barks")] {
        let def = TypeDef::object(name, object(&[(own, ShapeKind::Integer, true)]));
        types.insert(TypeDef { supertypes: vec![animal], ..def });
    }
    let text = TypeKind::Alias(Shape::new(string));
    types.insert(TypeDef { kind: text, ..TypeDef::object("Summary", ObjectDef::default()) });
    let open = ObjectDef { open: Open::Any, ..ObjectDef::default() };
    types.insert(TypeDef::object("Free", open));
    let mut given = object(&[]);
    let default = Constraints { default: Some(json!(3)), ..Constraints::default() };
    let shape = Shape { kind: ShapeKind::Integer, constraints: default };
    given.fields.insert("days".to_owned(), Field { shape, required: false });
    types.insert(TypeDef::object("Given", given));
    types
}

pub(in crate::prompt) fn scope(types: &Types) -> Scope {
    let named = |name: &str| types.id(name).map_or(Ty::Any, |id| Ty::named(types, id));
    let config = IndexMap::from([("story_count".to_owned(), Ty::Int), ("url".to_owned(), Ty::Str)]);
    let mut scope = Scope::new()
        .with("star_person", named("StarPerson"))
        .with("news", named("News"))
        .with("order", named("Order"))
        .with("animal", named("Animal"))
        .with("summary", named("Summary"))
        .with("free", named("Free"))
        .with("given", named("Given"))
        .with("draft", named("Story").optional())
        .with("orders", Ty::List(Box::new(named("Order"))))
        .with("config", Ty::Record(Arc::new(config)));
    scope.functions = true;
    scope.actions = Some(Arc::new(IndexSet::from(["find_news".to_owned()])));
    scope.conditions.insert("urgent".to_owned());
    scope
}

fn files() -> Files {
    let mut files = Files::new();
    for (name, source) in [
        ("news/head.jinja", "Hello {{ star_person.name }}{{ star_person.nam }}"),
        ("news/leo.jinja", "Leo {{ star_person.sign }}"),
        ("news/aries.jinja", "{{ who }}"),
        ("base.jinja", "{% block body %}{{ title }}{% endblock %}{% block foot %}bye{% endblock %}"),
        ("child.jinja", "{% extends 'base.jinja' %}{% block body %}{{ super() }}{% endblock %}"),
        ("macros.jinja", "{% macro card(s, size=1) %}{{ s.title }}: {{ s.scor }}{% endmacro %}{% set tone = 'warm' %}"),
        ("loop_a.jinja", "{% include 'loop_b.jinja' %}"),
        ("loop_b.jinja", "{% include 'loop_a.jinja' %}"),
        ("tree.jinja", "{% for t in order.tags %}{% include 'tree.jinja' %}{% endfor %}"),
        ("broken.jinja", "a {{ b"),
    ] {
        files.insert(name, source);
    }
    files
}

/// Findings as `code|text under it|first help`, with the file before the text when it is another.
fn shown(files: &Files, text: &str, checked: &Checked) -> Vec<String> {
    let show = |finding: &Finding| {
        let under = match &finding.place.file {
            None => text[finding.place.range.clone()].to_owned(),
            Some(file) => {
                format!("{file}:{}", &files.source(file).unwrap_or_default()[finding.place.range.clone()])
            }
        };
        format!("{}|{under}|{}", finding.code, finding.help.first().cloned().unwrap_or_default())
    };
    checked.findings.iter().map(show).collect()
}

fn template(text: &str) -> Vec<String> {
    let (types, files) = (types(), files());
    shown(&files, text, &check_template(&files, &types, &scope(&types), text))
}

fn expr(text: &str) -> Vec<String> {
    let types = types();
    shown(&Files::new(), text, &check_expr(&types, &scope(&types), text))
}

/// Asserts on the beginnings of what is found.
#[track_caller]
fn finds(text: &str, expected: &[&str]) {
    let found = template(text);
    let fits = found.len() == expected.len() && found.iter().zip(expected).all(|(found, want)| found.starts_with(want));
    assert!(fits, "{text}\n  found    {found:#?}\n  expected {expected:#?}");
}

#[track_caller]
fn clean(texts: &[&str]) {
    for text in texts {
        assert_eq!(template(text), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn right_templates_have_no_findings() {
    clean(&[
        "plain text",
        "{{ star_person.name }} {{ config.story_count }} {{ order.home.street }} {{ order.label }}",
        "{% for s in news.stories %}{{ loop.index }}. {{ s.title | upper }} {{ s.score * 2 }}{% endfor %}",
        "{% for s in news.stories if s.score > 0.5 %}{{ s.title }}{% else %}none{% endfor %}",
        "{% for k, v in order.extra | items %}{{ k }}={{ v }}{% endfor %}",
        "{% for k, v in order.extra.items() %}{{ k }}={{ v }}{% endfor %}",
        "{% if star_person.age is defined %}{{ star_person.age + 1 }}{% endif %}",
        "{% if star_person.age %}{{ star_person.age }}{% endif %}",
        "{% if star_person.age is not none and star_person.age > 3 %}{{ star_person.age }}{% endif %}",
        "{% if star_person.age is none %}?{% else %}{{ star_person.age }}{% endif %}",
        "{{ star_person.age | default('?') }} {{ star_person.age or 'unknown' }}",
        "{{ star_person.age if star_person.age else 'unknown' }}",
        "{{ draft.title if draft is defined else 'none' }} {% if draft %}{{ draft.title }}{% endif %}",
        "{% if not draft %}no{% else %}{{ draft.title }}{% endif %}",
        "{% if star_person.sign == 'leo' or star_person.sign in ['aries', 'pisces'] %}x{% endif %}",
        "{{ 'x' if order.express }}",
        "{% set n = order.days + 1 %}{{ n }}{% with m = n %}{{ m }}{% endwith %}",
        "{% if order.days > 1 %}{% set w = 'a' %}{% else %}{% set w = 'b' %}{% endif %}{{ w }}",
        "{{ news.stories | map(attribute='title') | join(', ') }} {{ news.stories | length }}",
        "{{ (news.stories | sort(attribute='score', reverse=true) | first).title }}",
        "{{ news.stories | selectattr('url', 'defined') | list | length }}",
        "{% for score, group in news.stories | groupby('score') %}{{ score }}{{ group | length }}{% endfor %}",
        "{% for g in news.stories | groupby('score') %}{{ g.grouper }}{{ g.list[0].title }}{% endfor %}",
        "{{ order.tags[0].upper() }} {{ order.tags[1:] | join }} {{ summary.split(' ')[0] }} {{ summary | wordcount }}",
        "{{ order['id'] }} {{ free.anything.at.all }} {{ given.days + 1 }}",
        "{{ last('Order').id if has('Order') else '' }}",
        "{{ count('Story') + 1 }} {{ now() }} {% for s in all('Story') %}{{ s.title }}{% endfor %}",
        "{% if ran('find_news') and not urgent %}x{% endif %}",
        "{% set ns = namespace(n=0) %}{% for t in order.tags %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}",
        "{% macro f(s, t='x') %}{{ s.title }}{{ t }}{{ g() }}{% endmacro %}{% macro g() %}g{% endmacro %}{{ f(draft) if draft }}",
        "{% macro f(s) %}{{ caller(1) }}{{ s }}{% endmacro %}{% call(n) f('a') %}{{ n }}{{ order.id }}{% endcall %}",
        "{% include 'news/leo.jinja' %}{% include ['no.jinja', 'news/leo.jinja'] %}{% include 'no' ignore missing %}",
        "{% extends 'base.jinja' %}{% block body %}{{ order.id }}{% endblock %}",
        "{% import 'macros.jinja' as m %}{{ m.tone }}{% raw %}{{ nothing }}{% endraw %}{# {{ nothing }} #}",
        "{% if animal.type == 'Frog' %}{{ animal.leaps }}{% endif %}{{ animal.type }}",
        "{% for t in order.tags %}{{ loop.previtem | default('-') }}{{ loop.cycle('a', 'b') }}{% endfor %}",
        "{% for t in order.tags recursive %}{{ loop(order.tags) }}{% endfor %}",
        "{% filter upper %}{{ order.id }}{% endfilter %}{% set x | trim %} a {% endset %}{{ x }}",
        "{{ '%s-%d' | format(order.id, 3) }} {{ order | tojson(indent=2) }} {{ order.id | truncate(20) }}",
        "{% for i in range(3) %}{{ i }}{% endfor %}{{ order.days ~ 'd' }}{{ -order.days }}{{ 7 // 2 }}",
        "{% if order.note is defined and order.note is not none %}{{ order.note }}{% endif %}",
        "{{ {'a': order.id}.a }} {{ [1, 2][0] }} {{ (1, 'x')[1] }}",
        "{{ order.extra.get('x', 'y') }} {% for v in order.extra.values() %}{{ v }}{% endfor %}",
        "{% if order.extra.colour is defined %}{{ order.extra.colour }}{% endif %}",
        "{% for s in news.stories %}{% if s.url %}{{ s.url }}{% endif %}{% endfor %}",
    ]);
}

#[test]
fn names_that_are_wrong_are_found_where_they_stand() {
    finds("Hi {{ star_person.nme }}", &["unknown-field|nme|did you mean `name`?"]);
    finds("{{ star_persn.name }}", &["unknown-variable|star_persn|did you mean `star_person`?"]);
    finds("{{ StarPerson.name }}", &["unknown-variable|StarPerson|did you mean `star_person`?"]);
    finds("{{ x }}", &["unknown-variable|x|visible here: "]);
    finds("{{ order.home.stret }}", &["unknown-field|stret|did you mean `street`?"]);
    finds("{{ order['idd'] }}", &["unknown-field|idd|did you mean `id`?"]);
    finds("{{ order.tags.name }}", &["unknown-field|name|"]);
    finds("{{ news.stories.title }}", &["unknown-field|title|its elements have: loop"]);
    finds("{{ order.tags.length }}", &["unknown-field|length|write `order.tags | length`"]);
    finds("{{ order.id.upper }}", &["unknown-field|upper|call it: `order.id.upper()`"]);
    finds("{{ order.id | uper }}", &["unknown-filter|uper|did you mean `upper`?"]);
    finds("{{ order.id | len }}", &["unknown-filter|len|did you mean `length`?"]);
    finds("{% if order.id is definde %}{% endif %}", &["unknown-test|definde|did you mean `defined`?"]);
    finds(
        "{% if order.note is definde %}{{ order.note }}{% endif %}",
        &["unknown-test|definde|did you mean `defined`?"],
    );
    finds("{{ len(order.tags) }}", &["unknown-function|len|it is a filter: `order.tags | length`"]);
    finds("{{ order.id.uper() }}", &["unknown-function|uper|did you mean `upper`?"]);
    finds("{{ order.id.toUpperCase() }}", &["unknown-function|toUpperCase|did you mean `upper`?"]);
    finds("{{ order.days() }}", &["unknown-function|days|leave out `()`"]);
    finds("{{ order() }}", &["unknown-function|order|leave out `()`"]);
    finds("{{ last('Stry').title }}", &["unknown-type|Stry|did you mean `Story`?"]);
    finds("{% if has('Ordr') %}{% endif %}", &["unknown-type|Ordr|did you mean `Order`?"]);
    finds("{% if ran('find_new') %}{% endif %}", &["unknown-action|find_new|did you mean `find_news`?"]);
    finds("{{ count(Story) }}", &["wrong-arguments|Story|write `count(\"Story\")`"]);
    finds("{{ config.story_cnt }}", &["unknown-field|story_cnt|did you mean `story_count`?"]);
    finds("{{ news.stories | map(attribute='titel') | join }}", &["unknown-field|titel|did you mean `title`?"]);
    finds("{{ news.stories | selectattr('scor') | list }}", &["unknown-field|scor|did you mean `score`?"]);
    finds("{{ order.tags | map('uper') | join }}", &["unknown-filter|uper|did you mean `upper`?"]);
    finds("{% for s in news.stories %}{{ s.titel }}{% endfor %}", &["unknown-field|titel|did you mean `title`?"]);
    finds("{% for s in news.stories %}{{ loop.idx }}{% endfor %}", &["unknown-field|idx|"]);
    finds("{{ animal.leap }}", &["unknown-field|leap|did you mean `leaps`?"]);
    finds("{{ null }}", &["unknown-variable|null|write `none`"]);
    finds("{% set a = 1 %}{{ b }}", &["unknown-variable|b|visible here: `a`"]);
    finds("{% for s in news.stories %}{% set a = 1 %}{% endfor %}{{ a }}", &["unknown-variable|a|"]);
    finds("é {{ ordr.id }} é {{ order.ix }}", &["unknown-variable|ordr|", "unknown-field|ix|"]);
    finds("{{ env.HOME }}", &["unknown-variable|env|environment variables"]);
}

#[test]
fn what_may_be_absent_is_a_warning() {
    finds("{{ star_person.age }}", &["optional-unguarded|star_person.age|guard it"]);
    finds("{{ draft.title }}", &["optional-unguarded|draft|guard it"]);
    finds("{{ order.note | upper }}", &["optional-unguarded|order.note|"]);
    finds("{% if star_person.age > 3 %}x{% endif %}", &["optional-unguarded|star_person.age|"]);
    finds(
        "{% if star_person.age == none %}x{% endif %}",
        &["optional-unguarded|star_person.age|write `star_person.age is none`"],
    );
    finds("{% for s in news.stories %}{{ s.url }}{% endfor %}", &["optional-unguarded|s.url|"]);
    finds("{{ order.home.city }}", &["optional-unguarded|order.home.city|"]);
    finds("{% if order.days > 1 %}{% set w = 1 %}{% endif %}{{ w }}", &["optional-unguarded|w|"]);
    finds("{{ last('Order').id }}", &["optional-unguarded|last('Order')|"]);
    finds("{{ animal.leaps }}", &["optional-unguarded|animal.leaps|"]);
    finds("{% if draft is defined %}{% else %}{{ draft.title }}{% endif %}", &["optional-unguarded|draft|"]);
    finds("{{ order.extra.colour }}", &["optional-unguarded|order.extra.colour|"]);
    finds(
        "{{ order.note ~ 'x' if order.express else order.note }}",
        &["optional-unguarded|order.note|", "optional-unguarded|order.note|"],
    );
    let types = types();
    let checked = check_template(&files(), &types, &scope(&types), "{{ star_person.age }}");
    assert!(checked.is_ok() && checked.findings[0].severity == Severity::Warning);
}

#[test]
fn values_that_do_not_fit_are_errors() {
    finds("{{ order.days + order.id }}", &["type-mismatch|order.days + order.id|join text with `~`"]);
    finds("{{ order.id * order.tags }}", &["type-mismatch|"]);
    finds("{{ -order.id }}", &["type-mismatch|order.id|"]);
    finds("{% for d in order.days %}{% endfor %}", &["type-mismatch|order.days|to count, loop over `range(…)`"]);
    finds("{% for k, v in order.extra %}{% endfor %}", &["type-mismatch|order.extra|write `order.extra | items`"]);
    finds("{% for a, b in news.stories %}{% endfor %}", &["type-mismatch|a, b|give it one name"]);
    finds("{{ order.tags | upper }}", &["type-mismatch|order.tags|apply it to every element"]);
    finds("{{ order.days | length }}", &["type-mismatch|order.days|"]);
    finds("{% if order.tags > 3 %}{% endif %}", &["type-mismatch|order.tags > 3|compare the length"]);
    finds("{% if order.id > 3 %}{% endif %}", &["type-mismatch|order.id > 3|"]);
    finds("{{ order.days[0] }}", &["type-mismatch|0|"]);
    finds("{{ order.tags['a'] }}", &["type-mismatch|'a'|"]);
    finds("{{ none }}", &["type-mismatch|none|give a default"]);
    finds("{{ range }}", &["type-mismatch|range|call it"]);
    finds("{{ order.id | replace('a') }}", &["wrong-arguments|replace|"]);
    finds("{{ order.id | upper(1) }}", &["wrong-arguments|1|"]);
    finds("{{ order.tags | join(',', atribute='x') }}", &["wrong-arguments|atribute|did you mean `attribute`?"]);
    finds("{{ order.id.replace('a') }}", &["wrong-arguments|replace|"]);
    finds("{{ order['id'][1:] }}{{ order[1:2] }}", &["type-mismatch|order|"]);
    finds("{% set order.id = 1 %}", &["type-mismatch|"]);
}

#[test]
fn comparisons_that_never_hold_are_errors() {
    finds(
        "{% if star_person.sign == \"scorpo\" %}{% endif %}",
        &["impossible-comparison|scorpo|did you mean `scorpio`?"],
    );
    finds(
        "{% if 'scorpo' != star_person.sign %}{% endif %}",
        &["impossible-comparison|scorpo|did you mean `scorpio`?"],
    );
    finds(
        "{% if star_person.sign in ['leo', 'arie'] %}{% endif %}",
        &["impossible-comparison|arie|did you mean `aries`?"],
    );
    finds("{% if star_person.sign is eq('loe') %}{% endif %}", &["impossible-comparison|loe|did you mean `leo`?"]);
    finds(
        "{% if order.days == '3' %}{% endif %}",
        &["impossible-comparison|order.days == '3'|write the number without"],
    );
    finds("{% if order.tags == 'a' %}{% endif %}", &["impossible-comparison|order.tags == 'a'|to look into a list"]);
    finds("{% if 3 in order.tags %}{% endif %}", &["impossible-comparison|3 in order.tags|"]);
    finds("{% if animal.type == 'Frg' %}{% endif %}", &["impossible-comparison|Frg|did you mean `Frog`?"]);
    finds("{% if order.id in 3 %}{% endif %}", &["type-mismatch|3|"]);
    let types = types();
    let text = "star_person.sign == 'scorpo'";
    let checked = check_expr(&types, &scope(&types), text);
    assert_eq!(checked.findings[0].fix.as_deref(), Some("scorpio"));
}

#[test]
fn included_extended_and_imported_files_are_checked() {
    finds("{% include 'news/head.jinja' %}", &["unknown-field|news/head.jinja:nam|did you mean `name`?"]);
    finds(
        "{% include 'news/' ~ star_person.sign ~ '.jinja' %}",
        &["unknown-variable|news/aries.jinja:who|", "unknown-field|news/head.jinja:nam|"],
    );
    finds("{% include 'news/lio.jinja' %}", &["unknown-template|news/lio.jinja|did you mean `news/leo.jinja`?"]);
    finds("{% include 'news/leo' %}", &["unknown-template|news/leo|did you mean `news/leo.jinja`?"]);
    finds("{% include 'old/' ~ order.id %}", &["unknown-template|'old/' ~ order.id|there are "]);
    finds("{% include 'broken.jinja' %}", &["template-syntax|broken.jinja:{{ b|add `}}`"]);
    finds("{% include 'loop_a.jinja' %}", &["template-cycle|loop_b.jinja:'loop_a.jinja'|"]);
    clean(&["{% include 'tree.jinja' %}"]);
    finds(
        "{% extends 'base.jinja' %}{% block bdy %}{% endblock %}",
        &["unknown-block|bdy|did you mean `body`?", "unknown-variable|base.jinja:title|"],
    );
    finds(
        "{% extends 'child.jinja' %}{% set title = 'x' %}{% block foot %}{{ ordr }}{{ super() }}{% endblock %}",
        &["unknown-variable|ordr|"],
    );
    finds("{% import 'macros.jinja' as m %}{{ m.crd(news) }}", &["unknown-macro|crd|did you mean `card`?"]);
    finds("{% from 'macros.jinja' import crd %}", &["unknown-macro|crd|did you mean `card`?"]);
    finds(
        "{% from 'macros.jinja' import card as c %}{{ c(draft, 1, 2) if draft }}",
        &["wrong-arguments|2|", "unknown-field|macros.jinja:scor|did you mean `score`?"],
    );
    finds("{{ super() }}", &["unknown-function|super|"]);
}

#[test]
fn macros_are_checked_with_what_they_are_called_with() {
    let decl = "{% macro f(s, t='x') %}{{ s.titel }}{% endmacro %}";
    clean(&[decl]);
    finds(&format!("{decl}{{{{ f(news.stories[0]) }}}}"), &["unknown-field|titel|did you mean `title`?"]);
    finds(&format!("{decl}{{{{ f() }}}}"), &["wrong-arguments|f|"]);
    finds(&format!("{decl}{{{{ f(1, u=2) }}}}"), &["unknown-field|titel|", "wrong-arguments|u|"]);
    clean(&["{% macro f(s) %}{{ s if s is defined else '-' }}{% endmacro %}{{ f() }}"]);
    finds("{% macro f(s) %}{{ nothing }}{% endmacro %}", &["unknown-variable|nothing|"]);
    clean(&["{% macro f(n) %}{{ f(n - 1) if n > 0 }}{% endmacro %}{{ f(3) }}"]);
}

#[test]
fn what_an_expr_mentions_is_told() {
    let types = types();
    let mut scope = Scope { position: Position::Truth, functions: true, ..Scope::default() };
    scope.type_names = Some(Scope::type_names(&types));
    scope.conditions.insert("urgent".to_owned());
    let check = |text: &str| check_expr(&types, &scope, text);
    let names = |set: &IndexSet<String>| set.iter().cloned().collect::<Vec<_>>().join(" ");

    let checked = check("order.days > 30 and not urgent and has('Story')");
    assert_eq!(checked.findings, []);
    assert_eq!(names(&checked.mentions), "order urgent");
    assert_eq!((names(&checked.types), names(&checked.conditions)), ("Order Story".to_owned(), "urgent".to_owned()));
    let checked = check("order is not defined or order.days > 3");
    assert_eq!((names(&checked.mentions), names(&checked.guarded)), (String::new(), "order".to_owned()));
    let checked = check("order is defined and star_person.name == 'x'");
    assert_eq!((names(&checked.mentions), names(&checked.guarded)), ("star_person".to_owned(), "order".to_owned()));
    assert_eq!(names(&check("ran('a') and count('Order') > 1").ran), "a");
    assert_eq!(names(&check("last('Order').days > 1").types), "Order");
    assert_eq!(names(&check("has('Order') and last('Order').days > 1").needs), "");
    assert_eq!(names(&check("last('Order').days > 1 and count('Story') > 1").needs), "Order");
    assert_eq!(names(&check("order is defined and order.days > 1").needs), "");
    assert_eq!(check("order.dys > 3").findings[0].code, "unknown-field");
    assert_eq!(check("ordr.days > 3").findings[0].help[0], "did you mean `order`?");
    assert_eq!(check("order.days > 3").ty, Some(Ty::Bool));
    assert_eq!(check("star_person.age > 3").findings[0].code, "optional-unguarded");
    scope.position = Position::Value;
    assert_eq!(check_expr(&types, &scope, "order.days * 0.1").findings[0].code, "optional-unguarded");
}

#[test]
fn types_of_exprs_and_data() {
    let (types, files) = (types(), files());
    let mut scope = scope(&types);
    scope.position = Position::Data;
    let ty = |text: &str| check_template(&files, &types, &scope, text).ty.map(|ty| ty.describe(&types));
    for (text, expected) in [
        ("{{ order.days }}", "integer"),
        ("{{ order.days / 2 }}", "number"),
        ("{{ order.tags | length }}", "integer"),
        ("{{ order.tags | first }}", "string"),
        ("{{ news.stories | map(attribute='score') | list }}", "list<number>"),
        ("{{ news.stories[0] }}", "Story"),
        ("{{ order.id ~ 'x' }}", "string"),
        ("{{ order.days > 3 }}", "boolean"),
        ("{{ star_person.age | default(none) }}", "integer or null"),
        ("{{ order.label }}", "string"),
        ("{{ order.home }}", "an object of `street`, `city`"),
    ] {
        assert_eq!(ty(text).as_deref(), Some(expected), "{text}");
    }
    assert_eq!(ty("a {{ order.days }}"), None);
    assert_eq!(ty("{{ none }}").as_deref(), Some("null"));
}

#[test]
fn exprs_are_checked_too() {
    assert_eq!(expr("order.days > 3 and star_person.sign == 'leo'"), Vec::<String>::new());
    assert_eq!(expr("order.days > 3 && urgent")[0], "expr-syntax|&&|write `and`");
    assert_eq!(expr("urgnt")[0], "unknown-variable|urgnt|did you mean `urgent`?");
    assert_eq!(expr("'x' if urgent")[0].split('|').next(), Some("optional-unguarded"));
    assert_eq!(expr("0.5"), Vec::<String>::new());
}
