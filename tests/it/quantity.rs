//! Our arithmetic of amounts beside what `resource.Quantity` answered (`tests/testbed/quantity` made the vectors).

use portcullis::quantity::Quantity;

const VECTORS: &str = include_str!("quantity.tsv");

#[test]
fn amounts_are_read_printed_and_added_as_kubernetes_does() {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for line in VECTORS.lines().filter(|line| !line.starts_with('#')) {
        let ours = match line.split('\t').collect::<Vec<_>>()[..] {
            ["parse", text, ..] => parse(text),
            ["add", a, b, ..] => add(a, b),
            _ => panic!("neither parse nor add: {line}"),
        };
        seen += 1;
        if ours != line {
            wrong.push(format!("{line:?} was {ours:?}"));
        }
    }
    assert!(seen > 1000, "only {seen} vectors");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn parse(text: &str) -> String {
    match text.parse::<Quantity>() {
        Ok(read) => format!("parse\t{text}\t{read}\t{:?}", read.format()),
        Err(_) => format!("parse\t{text}\terror\t"),
    }
}

fn add(a: &str, b: &str) -> String {
    let [left, right]: [Quantity; 2] = [a, b].map(|text| text.parse().unwrap());
    let sum = left.plus(right);
    let order = left.cmp(&right) as i8;
    format!("add\t{a}\t{b}\t{sum}\t{:?}\t{order}", sum.format())
}
