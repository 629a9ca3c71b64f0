//! Tests of both readers together: places, traps, recovery, bounds, arbitrary input.

use proptest::prelude::*;

use super::*;

fn yaml(text: &str) -> (Option<Node>, Vec<SyntaxError>) {
    read(FileId(0), &Source::new("a.yaml", text))
}

/// `code line:column text` for each error, with ` [old => new]` for a sure correction.
fn shown(text: &str) -> Vec<String> {
    let source = Source::new("a.yaml", text);
    let (_, errors) = read(FileId(0), &source);
    let one = |error: &SyntaxError| {
        let (line, column) = source.line_column(error.span.start);
        let fix = error.fix.as_ref().map(|(span, new)| format!(" [{} => {new}]", source.slice(*span)));
        format!("{} {line}:{column} {}{}", error.code, source.slice(error.span), fix.unwrap_or_default())
    };
    errors.iter().map(one).collect()
}

fn texts<'a>(node: &'a Node, out: &mut Vec<&'a Text>) {
    match &node.kind {
        NodeKind::Text(text) => out.push(text),
        NodeKind::List(items) => items.iter().for_each(|item| texts(item, out)),
        NodeKind::Map(map) => map.iter().for_each(|entry| texts(&entry.value, out)),
        _ => {}
    }
}

/// Checks that every character that is written as it is stands where the text says it stands, and that the text is
/// mapped piece by piece: mapped as a whole would mean that the decoder disagrees with the parser.
fn check_places(text: &Text, source: &Source) {
    let mapped: u32 = text.segments().iter().map(|segment| segment.value_len).sum();
    assert_eq!(mapped as usize, text.value.len(), "{:?}", text.value);
    for segment in text.segments() {
        assert!(segment.value_len <= 4 || segment.value_len == segment.file_len, "{:?}", text.value);
    }
    for (at, c) in text.value.char_indices() {
        let found = source.slice(text.span_of(at..at + c.len_utf8()));
        let escaped = found.starts_with(['\\', '\'']) || (c.is_whitespace() && found.chars().all(char::is_whitespace));
        assert!(found == c.to_string() || escaped, "{c:?} maps to {found:?} in {:?}", text.value);
    }
}

/// Valid files with every style of scalar.
const SAMPLES: &[&str] = &[
    "a: plain text\nb: 'it''s\n  two  \n\n  x'\nc: \"x\\n\\\n   y \\u00e9 \\x41 \\U0001F600 \\ud83d\\ude00\n  z\"\n",
    "a: |\n  x\n   y\n\n  z\n\nb: >-\n  fold\n  me\n\n  para\n    more\n  end\n\n",
    "a: |2-\n    x\n  y\nlast: |+\n  x\n\n\n",
    "a: >\n\n  x\n  z\n\n\n   y\n  z  \n  w\n",
    "a: plain\n  multi\n\n  line # comment\nb: &x {k: v}\nc: *x\nd: [a, [], {}, 'q', \"r\"]\ne:\n",
    "a: 1\r\nb: |\r\n  x\r\n  y\r\nc: >\r\n  a\r\n  b\r\n\r\n  c\r\nd: \"x\r\n  y\"\r\ne: p\r\n  q\r\n",
    "\u{feff}a: é ü\nb: '日本 語'\nc: \"日\\t本\"\nd: |\n  日本\n  語\n",
    "- |\n x\n- >+\n y\n\n- - |-\n    z\n  - 'w'\n-\n  plain\n",
    "a: | # comment | >\n  x\nb: >2 # c\n    x\n  y\n\"k | >\": |\n  v\nc: |\n# comment\nd: |-\n",
    "a: ''\nb: \"\"\nc: '''x'''\nd: \"\\\"q\\\"\"\ne: \"  lead\n\n\n  trail  \"\n",
    "k:\n  - when: \"{{ a | default('x') }}\"\n    then: |\n      {% if x %}\n        {{ y }}\n      {% endif %}\n",
    "i: 1\nf: 1.5\nn: null\nt: true\ns: no\nx: 0xff\nm: -3\nz: ~\ny: 'on'\n",
    "",
    "# nothing\n",
    "---\na: 1\n...\n",
];

/// Each trap of language.md 12 and each refusal of language.md 1: the text, and what is said of it.
const REFUSED: &[(&str, &[&str])] = &[
    ("prompt: {{ x }}\nb: 1\n", &["unquoted-template 1:9 {{ x }} [{{ x }} => '{{ x }}']"]),
    ("prompt: {% if x %}\n", &["unquoted-template 1:9 {% [{% if x %} => '{% if x %}']"]),
    ("prompt: {{ x }} and more\n", &["unquoted-template 1:9 {{ [{{ x }} and more => '{{ x }} and more']"]),
    ("prompt: {{ x }}\n  more\nb: 1\n", &["unquoted-template 1:9 {{"]),
    ("prompt:\n  {{ x }} and\n  more\nb: 1\n", &["unquoted-template 2:3 {{"]),
    ("p: Summarize: {{ x }}\n", &["colon-in-text 1:13 : [Summarize: {{ x }} => 'Summarize: {{ x }}']"]),
    (
        "a: \"{{ x | default(\"u\") }}\"\n",
        &["quotes-in-quotes 1:20 \" [\"{{ x | default(\"u\") }}\" => '{{ x | default(\"u\") }}']"],
    ),
    ("a: 'it's'\n", &["quotes-in-quotes 1:7 ' ['it's' => \"it's\"]"]),
    ("a: \"\\b\\d\"\n", &["escape-in-quotes 1:7 \\d [\"\\b\\d\" => '\\b\\d']"]),
    ("a: \"\\u12\"\n", &["escape-in-quotes 1:5 \\u"]),
    ("a:\n  - 'web' in tools\n", &["text-after-quotes 2:11 i ['web' in tools => \"'web' in tools\"]"]),
    ("a: \"x\" == \"y\"\n", &["text-after-quotes 1:8 = [\"x\" == \"y\" => '\"x\" == \"y\"']"]),
    ("a:\n  \"b\"?: c\n", &["text-after-quotes 2:6 ? [\"b\"? => b?]"]),
    ("a: {x: y, 'b'?: c}\n", &["text-after-quotes 1:14 ? ['b'? => b?]"]),
    ("b: [\"a\" in b]\n", &["text-after-quotes 1:9 i"]),
    ("pre: [max(a, b) > 1]\n", &["comma-in-text 1:7 max(a, b) > 1 [max(a, b) > 1 => 'max(a, b) > 1']"]),
    ("a: {when: max(a, b) > 1, t: 1}\n", &["comma-in-text 1:11 max(a, b) > 1 [max(a, b) > 1 => 'max(a, b) > 1']"]),
    ("when: x == \" # y\"\n", &["comment-in-text 1:14 # y\" [x == \" # y\" => 'x == \" # y\"']"]),
    ("when: !urgent\n", &["yaml-tag 1:7 !urgent [! => not ]"]),
    ("pre: [!urgent, x]\n", &["yaml-tag 1:7 !urgent [! => not ]"]),
    ("when: !has(\"X\")\n", &["yaml-tag 1:7 ! [! => not ]"]),
    ("a: !!str x\n", &["yaml-tag 1:4 !!str"]),
    ("in: [Person[], X]\n", &["list-brackets 1:6 Person[] [Person[] => list<Person>]"]),
    ("a: [x, {{ y }}]\n", &["unquoted-template 1:8 {{ y }} [{{ y }} => '{{ y }}']"]),
    ("c: [x, foo {{ y }}]\n", &["unquoted-template 1:12 {"]),
    ("a: 1\nb: 2\na: 3\n", &["duplicate-key 3:1 a"]),
    ("a:\n\tb: 1\n\tc: 2\nd: [\n", &["tab-indentation 2:1 \t", "unclosed-bracket 4:4 ["]),
    ("a:\n  b: 1\n\tc: 2\n", &["tab-indentation 3:1 \t"]),
    ("<<: {a: 1}\n", &["merge-key 1:1 <<"]),
    ("a: 1\n---\nb: 2\n", &["several-documents 2:1 ---"]),
    ("1: x\n[a]: y\n", &["non-string-key 1:1 1 [1 => '1']", "non-string-key 2:1 [a]"]),
    ("a: *nope\nb: &x [*x]\n", &["unknown-alias 1:4 *nope", "unknown-alias 2:8 *x"]),
    ("a: @x\nb: > 5\n", &["unquoted-start 1:4 @ [@x => '@x']", "unquoted-start 2:4 > [> 5 => '> 5']"]),
    ("a: *b c\nd: [x] y\n", &["unquoted-start 1:4 * [*b c => '*b c']", "unquoted-start 2:8 y [[x] y => '[x] y']"]),
    ("a: 'x\nb: [1\nc: 1\n", &["unclosed-quotes 1:4 '", "unclosed-bracket 2:4 ["]),
    ("x: [a, b}\ny: 1\n", &["unclosed-bracket 1:4 ["]),
    ("a:1\nb: 2\nc\nd: 3\n", &["missing-space 1:2 : [: => : ]", "missing-colon 3:1 c"]),
    ("a: x\n b: y\nc: 1\n", &["bad-indentation 2:2 b"]),
    ("  a: 1\nb: 2\nc: 3\n", &["bad-indentation 2:1 b: 2"]),
    ("a:\n  b:\n    c: 1\n   d: 2\n", &["bad-indentation 4:4 d: 2"]),
    ("a: - x\n", &["syntax 1:4 -"]),
    ("cost: .inf\n", &["non-finite-number 1:7 .inf"]),
];

#[test]
fn every_trap_is_named_with_its_cure() {
    for (text, expected) in REFUSED {
        assert_eq!(shown(text), *expected, "{text:?}");
        assert!(yaml(text).1.iter().all(|error| !error.help.is_empty()), "{text:?}");
    }
}

/// A sure correction must cure: the corrected file no longer has that error.
#[test]
fn fixes_cure() {
    for (text, _) in REFUSED {
        for error in yaml(text).1 {
            let Some((span, new)) = &error.fix else { continue };
            let cured = format!("{}{new}{}", &text[..span.start as usize], &text[span.end as usize..]);
            let left = yaml(&cured).1;
            let same = |other: &SyntaxError| (other.code, &other.message) == (error.code, &error.message);
            assert!(!left.iter().any(same), "{cured:?}: {left:?}");
        }
    }
}

#[test]
fn what_is_written_well_is_not_refused() {
    for text in
        ["a: don't # it's\n", "a: x # \"y\"\n", "a: [f(x), g(y)]\n", "a: {b: c, d: e}\n", "a: x:y\n", "a: -1\nb: -x\n"]
    {
        assert_eq!(shown(text), [""; 0], "{text:?}");
    }
}

#[test]
fn what_was_left_out_is_a_hole_and_the_rest_is_read() {
    let (root, errors) = yaml("a: [\n  1,\n  'x' y,\n]\nb: 1\nc: x: y\nl:\n  - @x\n  - 2\n");
    assert_eq!(errors.len(), 3);
    let root = root.unwrap();
    let map = root.as_map().unwrap();
    assert!(map.get("a").unwrap().value.is_hole() && map.get("c").unwrap().value.is_hole() && !map.incomplete);
    assert_eq!(map.get("b").unwrap().value.as_int(), Some(1));
    let list = map.get("l").unwrap().value.as_list().unwrap();
    assert!(list[0].is_hole() && list[1].as_int() == Some(2));
    let (root, _) = yaml("a: 1\nno colon\nb: 2\n");
    assert!(root.unwrap().as_map().unwrap().incomplete);
}

#[test]
fn every_character_maps_to_its_place() {
    for sample in SAMPLES {
        let source = Source::new("a.yaml", *sample);
        let (root, errors) = read(FileId(0), &source);
        assert_eq!(errors, [], "{sample:?}");
        let root = root.unwrap();
        let mut found = Vec::new();
        texts(&root, &mut found);
        found.iter().for_each(|text| check_places(text, &source));
    }
}

#[test]
fn a_block_begins_at_its_indicator() {
    let source = Source::new("a.yaml", "a: |2-  # c\n    x\n   {{ y }}\n\n\nb: >\n  p\n  {{ z }}\n");
    let (root, _) = read(FileId(0), &source);
    let root = root.unwrap();
    let text = |key| root.as_map().unwrap().get(key).unwrap().value.as_text().unwrap().clone();
    let (a, b) = (text("a"), text("b"));
    assert_eq!(source.slice(a.span), "|2-  # c\n    x\n   {{ y }}");
    let at = a.value.find('y').unwrap();
    assert_eq!(source.line_column(a.span_of(at..at + 1).start), (3, 7));
    let at = b.value.find("{{ z }}").unwrap();
    assert_eq!(source.slice(b.span_of(at..at + 7)), "{{ z }}");
    let part = b.part(at + 3..at + 4);
    assert_eq!((part.value.as_str(), source.slice(part.span_of(0..1))), ("z", "z"));
}

#[test]
fn toml_strings_map_to_their_places() {
    let sample = concat!(
        "a = \"b\\tc \\u00e9 \\x41\"\nb = 'lit\\eral'\nc = \"\"\"\r\nx\r\n y\\\r\n   z \\\"q\\\" \"\"\"\n",
        "d = '''\nl1\nl2'''\ne = \"\"\nf = \"\"\"a\"b\"\"\"\"\n\"k?\" = 'é'\n"
    );
    let source = Source::new("a.toml", sample);
    let (root, errors) = read(FileId(0), &source);
    assert_eq!(errors, []);
    let root = root.unwrap();
    let mut found = Vec::new();
    texts(&root, &mut found);
    assert_eq!(found.len(), 7);
    found.iter().for_each(|text| check_places(text, &source));
}

#[test]
fn both_yaml_readers_agree() {
    // The other reader does not know surrogate pairs.
    for sample in SAMPLES.iter().filter(|sample| !sample.contains("ude00")) {
        let (root, _) = yaml(sample);
        let ours = root.unwrap().to_json();
        let plain = sample.trim_start_matches('\u{feff}');
        let theirs: serde_json::Value = serde_yaml::from_str(plain).unwrap();
        let theirs = if theirs.is_null() { serde_json::json!({}) } else { theirs };
        assert_eq!(ours, theirs, "{sample:?}");
    }
}

#[test]
fn an_aliased_node_keeps_its_anchors_place() {
    let source = Source::new("a.yaml", "a: &x {k: v}\nb: *x\nc: 1\n");
    let (root, errors) = read(FileId(0), &source);
    assert_eq!(errors, []);
    let root = root.unwrap();
    let map = root.as_map().unwrap();
    assert_eq!(map.get("a").map(|entry| &entry.value), map.get("b").map(|entry| &entry.value));
    assert_eq!(source.slice(map.get("b").unwrap().value.span), "{k: v}");
    assert_eq!(source.slice(root.span), "a: &x {k: v}\nb: *x\nc: 1");
}

#[test]
fn bounds_hold() {
    let codes = |text: &str| yaml(text).1.iter().map(|error| error.code).collect::<Vec<_>>();
    let bomb: String = (1..40).map(|n| format!("a{n}: &a{n} [*a{m}, *a{m}, *a{m}, *a{m}]\n", m = n - 1)).collect();
    assert_eq!(codes(&format!("a0: &a0 x\n{bomb}")), ["alias-bomb"]);
    let copies = |n: i32| vec![format!("*b{}", n - 1); 9].join(", ");
    let wide: String = (1..9).map(|n| format!("b{n}: &b{n} [{}]\n", copies(n))).collect();
    assert_eq!(codes(&format!("b0: &b0 {}\n{wide}", "x".repeat(10_000))), ["alias-bomb"]);
    assert_eq!(codes(&format!("a: {}{}", "[".repeat(64), "]".repeat(64))), ["too-deep"]);
    assert_eq!(codes(&format!("a: {}{}", "[".repeat(63), "]".repeat(63))), [""; 0]);
    assert!(codes(&"[".repeat(1_000_000)).contains(&"too-deep"));
    assert!(codes(&"- ".repeat(100_000)).contains(&"too-deep"));
    assert_eq!(codes(&"-\n".repeat(1_500_000)), ["too-many-nodes"]);
    assert_eq!(codes(&" ".repeat(FILE_BYTES_MAX + 1)), ["too-large"]);
    let source = Source::new("a.toml", format!("a = {}1{}", "[".repeat(70), "]".repeat(70)));
    assert_eq!(read(FileId(0), &source).1.iter().map(|error| error.code).collect::<Vec<_>>(), ["too-deep"]);
}

fn check_spans(node: &Node, source: &Source) {
    assert!(source.text().get(node.span.range()).is_some(), "{:?}", node.span);
    match &node.kind {
        NodeKind::Text(text) => {
            for (at, c) in text.value.char_indices() {
                let span = text.span_of(at..at + c.len_utf8());
                assert!(source.text().get(span.range()).is_some(), "{span:?} of {text:?}");
                assert!(text.span.start <= span.start && span.end <= text.span.end);
            }
        }
        NodeKind::List(items) => items.iter().for_each(|item| check_spans(item, source)),
        NodeKind::Map(map) => map.iter().for_each(|entry| {
            assert!(source.text().get(entry.key.span.range()).is_some());
            check_spans(&entry.value, source);
        }),
        _ => {}
    }
}

/// Reads any text; every place must lie in it, on character boundaries.
fn check_any(path: &str, text: &str) {
    let source = Source::new(path, text);
    let (root, errors) = read(FileId(0), &source);
    if let Some(root) = root {
        check_spans(&root, &source);
    }
    for error in errors {
        let fix = error.fix.iter().map(|(span, _)| *span);
        for span in std::iter::once(error.span).chain(error.related.iter().map(|(span, _)| *span)).chain(fix) {
            assert!(source.text().get(span.range()).is_some(), "{span:?} of {error:?} in {text:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_input_panics(text in "[a-c:\\-\\[\\]{}|>'\"#&*!%@`?,\\\\= \t\n\ré日😀0-9.<~+\u{feff}\u{0}]{0,60}") {
        check_any("a.yaml", &text);
        check_any("a.toml", &text);
    }

    #[test]
    fn no_change_of_a_good_file_panics(
        sample in 0..SAMPLES.len() + REFUSED.len(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), 0..4usize, "[ \t\n:'\"{}\\[\\]|>é#\\\\=-]{0,3}"), 1..5),
    ) {
        let text = SAMPLES.get(sample).copied().unwrap_or_else(|| REFUSED[sample - SAMPLES.len()].0);
        let mut chars: Vec<char> = text.chars().collect();
        for (at, remove, insert) in changes {
            let at = at.index(chars.len() + 1);
            let end = (at + remove).min(chars.len());
            chars.splice(at..end, insert.chars());
        }
        let text: String = chars.into_iter().collect();
        check_any("a.yaml", &text);
        check_any("a.toml", &text);
    }
}

/// Nothing is searched again for each value: a file as large as may be is read in time that grows with its size.
/// The bound is far above what a slow machine needs, and far below what a quadratic reader would.
#[test]
fn large_files_are_read_in_linear_time() {
    let long_line = format!("a: [{}]\n", "x, ".repeat(300_000));
    let repeated_keys: String = (0..100_000).map(|n| format!("k{}: v\n", n % 50_000)).collect();
    let folded = format!("a: >\n{}", "  x\n\n".repeat(200_000));
    let start = std::time::Instant::now();
    for text in [long_line, repeated_keys, folded, "a: @x\n".repeat(100_000)] {
        yaml(&text);
    }
    assert!(start.elapsed().as_secs() < 30);
}
