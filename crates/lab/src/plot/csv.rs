//! The figures of a figure as text (RFC 4180), for every other program.

use super::figure::{Across, Bars, Body, Cells, Curves, Figure, Look};
use std::fmt::Write;

/// One line for each point, bar or cell; the first line names the columns with their units. Figures are in base units
/// and complete.
pub fn csv(figure: &Figure) -> String {
    match &figure.body {
        Body::Curves(curves) => of_curves(curves),
        Body::Bars(bars) => of_bars(bars),
        Body::Cells(cells) => of_cells(cells),
    }
}

fn of_curves(curves: &Curves) -> String {
    let (x, y) = (&curves.x, &curves.y);
    let mut out = String::new();
    row(
        &mut out,
        &[
            "series".to_owned(),
            "kind".to_owned(),
            format!("{} ({})", x.label, x.unit.base()),
            format!("{} ({})", y.label, y.unit.base()),
            "low".to_owned(),
            "high".to_owned(),
        ],
    );
    for series in &curves.series {
        for point in &series.points {
            let [low, high] = ends(point.interval);
            let fields = [
                series.name.clone(),
                kind(series.look).to_owned(),
                point.x.to_string(),
                point.y.to_string(),
                low,
                high,
            ];
            row(&mut out, &fields);
        }
    }
    for limit in &curves.limits {
        let at = limit.at.to_string();
        let [x, y] = match limit.across {
            Across::Level => [String::new(), at],
            Across::Upright => [at, String::new()],
        };
        row(&mut out, &[limit.label.clone(), "limit".to_owned(), x, y, String::new(), String::new()]);
    }
    out
}

fn of_bars(bars: &Bars) -> String {
    let mut out = String::new();
    let value = format!("{} ({})", bars.axis.label, bars.axis.unit.base());
    row(&mut out, &["group", "series", "kind", value.as_str(), "low", "high"].map(str::to_owned));
    for series in &bars.series {
        for (group, value) in bars.groups.iter().zip(&series.values) {
            let Some(value) = value else { continue };
            let [low, high] = ends(value.interval);
            let (name, kind) = (series.name.clone(), kind(series.look).to_owned());
            row(&mut out, &[group.clone(), name, kind, value.value.to_string(), low, high]);
        }
    }
    out
}

fn of_cells(cells: &Cells) -> String {
    let mut out = String::new();
    let value = format!("{} ({})", cells.label, cells.unit.base());
    row(&mut out, &[cells.row_title.clone(), cells.column_title.clone(), value]);
    for (name, values) in cells.rows.iter().zip(&cells.values) {
        for (column, value) in cells.columns.iter().zip(values) {
            let Some(value) = value else { continue };
            row(&mut out, &[name.clone(), column.clone(), value.to_string()]);
        }
    }
    out
}

fn kind(look: Look) -> &'static str {
    match look {
        Look::Measured(_) => "measured",
        Look::Published(_) => "published",
        Look::Law(_) => "law",
    }
}

fn ends(interval: Option<(f64, f64)>) -> [String; 2] {
    interval.map_or([String::new(), String::new()], |(low, high)| [low.to_string(), high.to_string()])
}

fn row(out: &mut String, fields: &[String]) {
    for (at, field) in fields.iter().enumerate() {
        let separator = if at == 0 { "" } else { "," };
        let _ = match field.contains([',', '"', '\n', '\r']) {
            true => write!(out, "{separator}\"{}\"", field.replace('"', "\"\"")),
            false => write!(out, "{separator}{field}"),
        };
    }
    out.push('\n');
}
