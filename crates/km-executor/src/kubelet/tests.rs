//! What of a log is shown.

use super::select::{Options, Printer, Tail};

const LOG: &str = "2026-01-01T00:00:00.000000000Z stdout F one
2026-01-01T00:00:01.000000000Z stdout P tw
2026-01-01T00:00:01.000000000Z stdout F o
2026-01-01T00:00:02.000000000Z stderr F three
";

fn options(pairs: &[(&str, &str)]) -> Result<Options, String> {
    let pairs: Vec<_> = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Options::parse(&pairs)
}

fn show(pairs: &[(&str, &str)]) -> String {
    let options = options(pairs).unwrap();
    let mut tail = Tail::new(options.tail_lines.unwrap_or(usize::MAX));
    LOG.split_inclusive('\n').for_each(|line| tail.push(line.as_bytes()));
    let start = usize::try_from(tail.start()).unwrap();
    let mut printer = Printer::new(options);
    let text: Vec<u8> = LOG[start..].lines().flat_map(|line| printer.print(line.as_bytes())).collect();
    String::from_utf8(text).unwrap()
}

#[test]
fn selections() {
    for (query, expected) in [
        (&[][..], "one\ntwo\nthree\n"),
        (&[("tailLines", "2")], "two\nthree\n"),
        (&[("tailLines", "0")], ""),
        (&[("tailLines", "9")], "one\ntwo\nthree\n"),
        (&[("limitBytes", "5")], "one\nt"),
        (&[("sinceTime", "2026-01-01T00:00:02Z")], "three\n"),
        (&[("stream", "Stderr")], "three\n"),
        (&[("tailLines", "1"), ("timestamps", "true")], "2026-01-01T00:00:02.000000000Z three\n"),
    ] {
        assert_eq!(show(query), expected, "{query:?}");
    }
    assert!(show(&[("timestamps", "true")]).contains("00:01.000000000Z two\n"), "one time per line");
}

#[test]
fn wrong_queries_are_named() {
    for (key, value) in
        [("tailLines", "x"), ("tailLines", "-1"), ("follow", "maybe"), ("sinceTime", "soon"), ("stream", "x")]
    {
        let error = options(&[(key, value)]).unwrap_err();
        assert!(error.starts_with(&format!("{key}={value:?}: must be")), "{error}");
    }
    assert_eq!(options(&[("unknown", "x")]), Ok(Options::default()));
}
