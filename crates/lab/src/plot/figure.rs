//! What a figure says, before it is drawn: titles, axes, series, and what is written beside them.

use super::axis::Axis;
use super::unit::Unit;

/// One figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Letters, digits and `-`: names its files, and its parts on a page.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// Date, path, iterations, encryption, verification: one statement each.
    pub facts: Vec<String>,
    /// Below it: where figures of others are from, what was corrected, what to see.
    pub notes: Vec<String>,
    /// What is drawn.
    pub body: Body,
}

/// What is drawn.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// Points and lines between two axes.
    Curves(Curves),
    /// Bars beside each other, in groups.
    Bars(Bars),
    /// A table whose cells are shaded.
    Cells(Cells),
}

/// Points and lines between two axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Curves {
    /// Across.
    pub x: Axis,
    /// Up.
    pub y: Axis,
    /// In the order of the legend.
    pub series: Vec<Series>,
    /// Straight lines over the whole width or height.
    pub limits: Vec<Limit>,
    /// Words at points.
    pub remarks: Vec<Remark>,
}

/// How a series looks; the number chooses colour, marker, dash and hatch, so that what belongs together can look so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Measured by us: full markers.
    Measured(usize),
    /// Published by others: hollow markers, dotted.
    Published(usize),
    /// What an equation says: a thin line without markers. It may leave the frame.
    Law(usize),
}

impl Look {
    /// The number.
    pub fn index(self) -> usize {
        match self {
            Look::Measured(index) | Look::Published(index) | Look::Law(index) => index,
        }
    }
}

/// How points are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// By straight lines, in the order given; intervals are a band and bars.
    Line,
    /// Not at all.
    Dots,
    /// By stairs: a share that is reached at each point.
    Stairs,
}

/// Points that belong together.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// As the legend calls it.
    pub name: String,
    /// How it looks.
    pub look: Look,
    /// How its points are joined.
    pub way: Way,
    /// In the order in which they are joined.
    pub points: Vec<Point>,
}

/// A figure at a place, and between what it surely lies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Across, in the axis' base unit.
    pub x: f64,
    /// Up, in the axis' base unit.
    pub y: f64,
    /// The interval's ends, if there is one.
    pub interval: Option<(f64, f64)>,
}

impl Point {
    /// Without an interval.
    pub fn new(x: f64, y: f64) -> Point {
        Point { x, y, interval: None }
    }
}

/// A straight line: a limit, a target.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// Which axis its figure belongs to.
    pub across: Across,
    /// Where it is.
    pub at: f64,
    /// What it is.
    pub label: String,
}

/// Which way a limit runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Across {
    /// Level, at a figure of the vertical axis.
    Level,
    /// Upright, at a figure of the horizontal axis.
    Upright,
}

/// Words at a point.
#[derive(Debug, Clone, PartialEq)]
pub struct Remark {
    /// Across.
    pub x: f64,
    /// Up.
    pub y: f64,
    /// The words.
    pub label: String,
}

/// Bars beside each other, in groups; on a logarithmic axis, which begins nowhere, dots.
#[derive(Debug, Clone, PartialEq)]
pub struct Bars {
    /// What their lengths measure, or the places of dots.
    pub axis: Axis,
    /// The groups' names.
    pub groups: Vec<String>,
    /// In the order of the legend, which only stands there for more than one.
    pub series: Vec<BarSeries>,
}

/// One bar in each group.
#[derive(Debug, Clone, PartialEq)]
pub struct BarSeries {
    /// As the legend calls it.
    pub name: String,
    /// How it looks; what is published is hollow.
    pub look: Look,
    /// One for each group; none where there was no measurement.
    pub values: Vec<Option<Value>>,
}

/// A figure, and between what it surely lies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Value {
    /// In the axis' base unit.
    pub value: f64,
    /// The interval's ends, if there is one.
    pub interval: Option<(f64, f64)>,
}

/// A table whose cells are shaded by their figures.
#[derive(Debug, Clone, PartialEq)]
pub struct Cells {
    /// What the rows are.
    pub row_title: String,
    /// Their names.
    pub rows: Vec<String>,
    /// What the columns are.
    pub column_title: String,
    /// Their names.
    pub columns: Vec<String>,
    /// What the figures are.
    pub label: String,
    /// Their unit.
    pub unit: Unit,
    /// By row and column; none where there was no measurement.
    pub values: Vec<Vec<Option<f64>>>,
}

impl Figure {
    /// The figure in words, for those who do not see it: its title, and what it shows.
    pub fn alternative(&self) -> String {
        format!("{}. {}", self.title, self.description()).trim_end().to_owned()
    }

    /// What it shows in words, without its title: for where that is told besides.
    pub fn description(&self) -> String {
        let sentences = match &self.body {
            Body::Curves(curves) => curves.sentences(),
            Body::Bars(bars) => bars.sentences(),
            Body::Cells(cells) => cells.sentences(),
        };
        sentences.join(" ")
    }
}

impl Curves {
    fn sentences(&self) -> Vec<String> {
        let begin = format!("{} against {}.", self.y.label, self.x.label.to_lowercase());
        let of = |series: &Series| {
            let (first, last) = (series.points.first()?, series.points.last()?);
            let at =
                |point: &Point| format!("{} at {}", self.y.unit.show(point.y), self.x.unit.show(point.x));
            Some(match series.points.len() {
                1 => format!("{}: {}.", series.name, at(first)),
                count => format!("{}: {count} points, from {} to {}.", series.name, at(first), at(last)),
            })
        };
        std::iter::once(begin).chain(self.series.iter().filter_map(of)).collect()
    }
}

impl Bars {
    fn sentences(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        for (at, group) in self.groups.iter().enumerate() {
            let values = self.series.iter().filter_map(|series| {
                let value = (*series.values.get(at)?)?;
                Some(format!("{} {}", series.name, self.axis.unit.show(value.value)))
            });
            sentences.push(format!("{group}: {}.", values.collect::<Vec<_>>().join(", ")));
        }
        sentences
    }
}

impl Cells {
    fn sentences(&self) -> Vec<String> {
        let begin = format!(
            "{} by {} and {}.",
            self.label,
            self.row_title.to_lowercase(),
            self.column_title.to_lowercase()
        );
        let row = |(name, values): (&String, &Vec<Option<f64>>)| {
            let shown = values
                .iter()
                .zip(&self.columns)
                .filter_map(|(value, column)| Some(format!("{column} {}", self.unit.show((*value)?))));
            format!("{name}: {}.", shown.collect::<Vec<_>>().join(", "))
        };
        std::iter::once(begin).chain(self.rows.iter().zip(&self.values).map(row)).collect()
    }
}
