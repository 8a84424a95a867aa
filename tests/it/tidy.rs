//! What the layout promises, checked on the files themselves.

use std::fs;
use std::path::{Path, PathBuf};

use expect_test::expect;

/// Folders and files that choose and touch nothing: no runtime, no client, no files, no clock.
const PURE: [&str; 15] = [
    "src/gang",
    "src/quantity",
    "src/workload",
    "src/pod",
    "src/job",
    "src/placement",
    "src/admission/decide.rs",
    "src/admission/mutate.rs",
    "src/admission/mutate",
    "src/admission/policies",
    "src/admission/respond.rs",
    "src/admission/review.rs",
    "src/admission/validate.rs",
    "src/reconcile/pair/plan",
    "src/reconcile/pair/plan.rs",
];
const IMPURE: [&str; 8] = [
    "tokio::",
    "kube::Client",
    "std::fs",
    "std::env",
    "std::net",
    "Instant::now",
    "SystemTime::now",
    "Timestamp::now",
];

#[test]
fn pure_folders_name_no_runtime_no_client_no_file_and_no_clock() {
    let found = PURE
        .iter()
        .flat_map(|place| rust_files(&root().join(place)))
        .filter(|file| !is_of_tests(file))
        .flat_map(|file| lines_with(&file, |line| IMPURE.iter().any(|word| line.contains(word))));
    expect![[""]].assert_eq(&list(found));
}

#[test]
fn a_file_stays_below_four_hundred_lines() {
    let found = ["src", "tests", "benches"]
        .iter()
        .flat_map(|place| rust_files(&root().join(place)))
        .filter_map(|file| {
            let lines = read(&file).lines().count();
            (lines > 400).then(|| format!("{}: {lines} lines", shown(&file)))
        });
    expect![[""]].assert_eq(&list(found));
}

#[test]
fn nothing_points_to_a_page_that_is_not_here() {
    let found = ["src", "tests", "benches", "docs", "examples", "manifests"]
        .iter()
        .flat_map(|place| files(&root().join(place)))
        .filter(|file| !file.ends_with("tests/it/tidy.rs"))
        .flat_map(|file| {
            lines_with(&file, |line| {
                line.contains("reference/")
                    || line.contains("../shared")
                    || line.contains(concat!("/ro", "ot/"))
            })
        });
    expect![[""]].assert_eq(&list(found));
}

#[test]
fn every_requirement_names_a_test_that_exists() {
    let code: String = ["src", "tests"]
        .iter()
        .flat_map(|place| rust_files(&root().join(place)))
        .map(|file| read(&file))
        .collect();
    let page = read(&root().join("docs/requirements.md"));
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| id"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    assert!(rows.len() >= 150, "docs/requirements.md has {} rows", rows.len());
    let missing = rows.iter().flat_map(|row| {
        let [id, _, tests] = row[..] else {
            return vec![format!("not three columns: {row:?}")];
        };
        let exists = |test: &&str| {
            let path = test.strip_prefix('`').and_then(|test| test.strip_suffix('`'));
            let name = path.and_then(|path| path.rsplit("::").next());
            name.is_some_and(|name| code.contains(&format!("fn {name}(")))
        };
        let missing = tests.split(", ").filter(|test| !exists(test));
        missing.map(|test| format!("{id}: {test}")).collect()
    });
    expect![[""]].assert_eq(&list(missing));
}

#[test]
fn every_id_that_is_named_is_a_requirement() {
    let page = read(&root().join("docs/requirements.md"));
    let known: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(' ').next())
        .collect();
    let unknown = ["src", "tests/it", "tests/cluster"]
        .iter()
        .flat_map(|place| rust_files(&root().join(place)))
        .flat_map(|file| {
            let text = read(&file);
            let comments: Vec<String> = text
                .lines()
                .filter_map(|line| line.split_once("//").map(|(_, comment)| comment.to_owned()))
                .collect();
            let file = shown(&file);
            comments
                .into_iter()
                .flat_map(|comment| ids(&comment))
                .map(move |id| (id, file.clone()))
                .collect::<Vec<_>>()
        })
        .filter(|(id, _)| !known.contains(&id.as_str()))
        .map(|(id, file)| format!("{id} in {file}"));
    expect![[""]].assert_eq(&list(unknown));
}

/// Words of a comment such as P8, T11 or R05: the prefixes of the page, and a number. What is code there is none.
fn ids(comment: &str) -> Vec<String> {
    comment
        .split('`')
        .step_by(2)
        .flat_map(|text| text.split(|letter: char| !letter.is_ascii_alphanumeric()))
        .filter(|word| {
            let number = word.strip_prefix(|letter| "PTLCAOSR".contains(letter));
            number.is_some_and(|number| {
                (1..=3).contains(&number.len()) && number.bytes().all(|digit| digit.is_ascii_digit())
            })
        })
        .map(str::to_owned)
        .collect()
}

/// S8
#[test]
fn unsafe_code_is_forbidden_and_ring_is_the_only_crypto_provider() {
    let text = |file: &str| read(&root().join(file));
    assert!(text("Cargo.toml").contains("unsafe_code = \"forbid\""));
    for manifest in ["Cargo.toml", "tests/testbed/Cargo.toml"] {
        assert!(
            text(manifest).contains("[lints]\nworkspace = true\n"),
            "{manifest}"
        );
    }
    let (locked, banned) = (text("Cargo.lock"), text("deny.toml"));
    let is_locked = |name: &str| locked.contains(&format!("name = \"{name}\"\n"));
    assert!(is_locked("ring"));
    for name in ["aws-lc-rs", "aws-lc-sys", "openssl", "openssl-sys", "native-tls"] {
        assert!(!is_locked(name), "{name} is in Cargo.lock");
        assert!(
            banned.contains(&format!("crate = \"{name}\"")),
            "{name} is not banned"
        );
    }
}

#[test]
fn every_decision_has_its_own_number_and_a_line_in_the_index() {
    let index = read(&root().join("docs/decisions/README.md"));
    let mut numbers = Vec::new();
    for file in files(&root().join("docs/decisions")) {
        let name = file
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default()
            .to_owned();
        if name != "README.md" {
            assert!(index.contains(&format!("({name})")), "{name} is not in the index");
            numbers.push(name[..4].to_owned());
        }
    }
    let all = numbers.len();
    numbers.sort();
    numbers.dedup();
    assert_eq!(numbers.len(), all, "two decisions share a number");
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn rust_files(place: &Path) -> Vec<PathBuf> {
    files(place)
        .into_iter()
        .filter(|file| file.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}

fn files(place: &Path) -> Vec<PathBuf> {
    if place.is_file() {
        return vec![place.to_owned()];
    }
    let mut found: Vec<PathBuf> = fs::read_dir(place)
        .unwrap_or_else(|error| panic!("{}: {error}", place.display()))
        .flat_map(|entry| files(&entry.unwrap().path()))
        .collect();
    found.sort();
    found
}

/// `tests.rs` and what is below `tests/` beside the code.
fn is_of_tests(file: &Path) -> bool {
    let below = file.strip_prefix(root()).unwrap_or(file);
    below.ends_with("tests.rs") || below.components().any(|part| part.as_os_str() == "tests")
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn lines_with(file: &Path, bad: impl Fn(&str) -> bool) -> Vec<String> {
    let text = read(file);
    let product = text.split("#[cfg(test)]").next().unwrap_or_default(); // tests of a pure file may do as they like
    product
        .lines()
        .enumerate()
        .filter(|(_, line)| bad(line))
        .map(|(number, line)| format!("{}:{}: {}", shown(file), number + 1, line.trim()))
        .collect()
}

fn shown(file: &Path) -> String {
    file.strip_prefix(root()).unwrap_or(file).display().to_string()
}

fn list(lines: impl Iterator<Item = String>) -> String {
    lines.collect::<Vec<_>>().join("\n")
}
