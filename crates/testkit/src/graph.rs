//! Small SVG graphs for the docs: stacked panels over a common time axis, each with its own scale.

use std::fmt::Write;

/// Time runs from 0 to `seconds`.
pub struct Graph {
    pub seconds: f64,
    pub panels: Vec<Panel>,
    /// Labelled time ranges, drawn behind the lines of every panel.
    pub bands: Vec<Band>,
}

pub struct Panel {
    pub lines: Vec<GraphLine>,
    /// Minimum upper end of the scale, so that noise near zero stays small.
    pub least_top: f64,
}

pub struct GraphLine {
    pub name: String,
    pub colour: &'static str,
    /// (second, value).
    pub points: Vec<(f64, f64)>,
}

pub struct Band {
    pub from: f64,
    pub until: f64,
    pub name: String,
}

/// Width of the graph in SVG units, as all sizes below.
const WIDTH: f64 = 720.0;
/// Left margin, for the labels of the scale.
const LEFT: f64 = 48.0;
/// Right margin.
const RIGHT: f64 = 12.0;
/// Height of a panel.
const PANEL: f64 = 120.0;
/// Space above each panel, for its name.
const HEAD: f64 = 30.0;
/// Space below the last panel, for the time labels.
const FOOT: f64 = 28.0;
/// Candidate distances between time labels, in seconds. The graph uses the first that yields at
/// most `MOST_LABELS` labels.
const LABEL_STEPS: [u64; 8] = [5, 10, 30, 60, 120, 300, 600, 1_800];
/// Upper bound on the number of time labels; more overlap.
const MOST_LABELS: u64 = 16;
/// Upper bound on points per line; more are indistinguishable and only enlarge the file.
const MOST_POINTS: usize = 360;
/// Approximate width of a letter. If it is too small, labels overlap.
const LETTER: f64 = 6.0;

impl Graph {
    pub fn svg(&self) -> String {
        let height = self.panels.len() as f64 * (HEAD + PANEL) + FOOT;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
             font-size=\"11\">\n<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
        );
        for (number, panel) in self.panels.iter().enumerate() {
            self.panel(&mut svg, number as f64 * (HEAD + PANEL) + HEAD, panel);
        }
        let total = self.seconds as u64;
        let step = LABEL_STEPS.into_iter().find(|step| total / step < MOST_LABELS).unwrap_or(3_600);
        for second in (0..=total).step_by(step as usize) {
            let label = if step < 60 { format!("{second} s") } else { format!("{} min", second / 60) };
            text(&mut svg, (self.x(second as f64), height - 10.0), "middle", "#555555", &label);
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn x(&self, second: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * second / self.seconds
    }

    fn panel(&self, svg: &mut String, top: f64, panel: &Panel) {
        let bottom = top + PANEL;
        for band in &self.bands {
            let (from, until) = (self.x(band.from), self.x(band.until));
            let width = until - from;
            writeln!(
                svg,
                "<rect x=\"{from:.1}\" y=\"{top}\" width=\"{width:.1}\" height=\"{PANEL}\" fill=\"#f0e6d2\"/>"
            )
            .unwrap();
            text(svg, (f64::midpoint(from, until), top + 12.0), "middle", "#806020", &band.name);
        }
        let values = panel.lines.iter().flat_map(|line| &line.points).map(|(_, value)| *value);
        let highest = values.fold(panel.least_top, f64::max);
        let unit = 10_f64.powf(highest.log10().floor());
        let most = (highest / unit).ceil() * unit;
        let y = |value: f64| bottom - PANEL * value / most;
        for value in [0.0, most / 2.0, most] {
            let (right, at) = (WIDTH - RIGHT, y(value));
            writeln!(svg, "<path d=\"M{LEFT} {at:.1}H{right}\" stroke=\"#dddddd\"/>").unwrap();
            let label = if most < 10.0 { format!("{value:.1}") } else { format!("{value:.0}") };
            text(svg, (LEFT - 6.0, at + 4.0), "end", "#555555", &label);
        }
        let mut name_at = LEFT;
        for line in &panel.lines {
            let points = thinned(&line.points);
            let points =
                points.iter().map(|(second, value)| format!("{:.1},{:.1}", self.x(*second), y(*value)));
            let points = points.collect::<Vec<_>>().join(" ");
            let colour = line.colour;
            writeln!(
                svg,
                "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>"
            )
            .unwrap();
            text(svg, (name_at, top - 8.0), "start", colour, &line.name);
            name_at += LETTER * (line.name.chars().count() as f64 + 3.0);
        }
    }
}

/// Reduces the points to at most `MOST_POINTS`: keeps the highest of each chunk, so that peaks
/// remain.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let few = points.len().div_ceil(MOST_POINTS).max(1);
    let highest = |few: &[(f64, f64)]| few.iter().copied().max_by(|one, other| one.1.total_cmp(&other.1));
    points.chunks(few).filter_map(highest).collect()
}

fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, colour: &str, text: &str) {
    writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{colour}\">{text}</text>")
        .unwrap();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graph_of_an_hour_has_few_points_and_minute_labels() {
        let points: Vec<(f64, f64)> = (0..3_600).map(|second| (f64::from(second), 3.0)).collect();
        let line =
            |name: &str| GraphLine { name: name.to_owned(), colour: "#000000", points: points.clone() };
        let panel = Panel { lines: vec![line("median"), line("slowest")], least_top: 1.0 };
        let svg = Graph { seconds: 3_600.0, panels: vec![panel], bands: Vec::new() }.svg();
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert!(svg.contains(">60 min<") && svg.contains(">slowest<"), "{svg}");
        assert!(svg.len() < 25_000, "{} bytes", svg.len());
    }
}
