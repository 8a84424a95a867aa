//! Rows of text -> aligned columns on a terminal.

/// Longer cells of a table are cut. Some hold what users wrote, which may be of any length.
const LONGEST_CELL: usize = 500;

/// A cell as it may be shown on a terminal: in one line, without what controls the terminal, and not too long.
fn cell(text: &str) -> String {
    let shown = |letter: char| if letter.is_control() { ' ' } else { letter };
    match text.chars().count() > LONGEST_CELL {
        true => text
            .chars()
            .take(LONGEST_CELL - 1)
            .map(shown)
            .chain(['…'])
            .collect(),
        false => text.chars().map(shown).collect(),
    }
}

/// Aligned columns below their names; nothing if there are no rows.
pub fn table<const COLUMNS: usize>(names: [&str; COLUMNS], rows: &[[String; COLUMNS]]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let names = names.map(str::to_owned);
    let rows: Vec<_> = rows
        .iter()
        .map(|row| row.each_ref().map(|text| cell(text)))
        .collect();
    let lines = || std::iter::once(&names).chain(&rows);
    let widths: [usize; COLUMNS] = std::array::from_fn(|column| {
        lines()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or_default()
    });
    let aligned = |row: &[String; COLUMNS]| {
        let cells = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:width$}"));
        format!("{}\n", cells.collect::<Vec<_>>().join("   ").trim_end())
    };
    lines().map(aligned).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::{LONGEST_CELL, table};

    #[test]
    fn a_table_shows_what_users_wrote_whatever_it_is() {
        let long = "x".repeat(200_000);
        let shown = table(["A", "B"], &[[long, "red\u{1b}[31m\nsecond".to_owned()]]);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines.len(), 2, "{shown}");
        assert_eq!(
            lines[1].chars().filter(|letter| *letter == 'x').count(),
            LONGEST_CELL - 1
        );
        assert!(lines[1].ends_with("…   red [31m second"), "{}", lines[1]);
    }

    #[test]
    fn columns_are_aligned() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned);
        expect![[r#"
            A       LONG NAME
            first   1
            x
        "#]]
        .assert_eq(&table(["A", "LONG NAME"], &[row(["first", "1"]), row(["x", ""])]));
        assert_eq!(table(["A"], &[]), "");
    }
}
