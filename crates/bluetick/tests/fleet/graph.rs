//! Draws what the load receives over time and when nodes were down. Each line has its own panel and
//! scale, because a message is acknowledged once and delivered many times.

use std::time::Duration;

use bluetick_testkit::graph::{self, Band, GraphLine, Panel};
use bluetick_testkit::meter::Reading;

pub struct Graph {
    pub step: Duration,
    pub steps: Vec<Reading>,
    /// The time during which each node was down: start and end.
    pub away: Vec<(Duration, Duration)>,
}

impl Graph {
    fn panel(&self, name: &str, colour: &'static str, of: impl Fn(&Reading) -> u64) -> Panel {
        let step = self.step.as_secs_f64();
        let point = |(at, reading): (usize, &Reading)| ((at as f64 + 0.5) * step, of(reading) as f64 / step);
        let points = self.steps.iter().enumerate().map(point).collect();
        Panel { lines: vec![GraphLine { name: name.to_owned(), colour, points }], least_top: 10.0 }
    }

    pub fn svg(&self) -> String {
        let band = |(number, (from, until)): (usize, &(Duration, Duration))| Band {
            from: from.as_secs_f64(),
            until: until.as_secs_f64(),
            name: format!("node {}", number + 1),
        };
        let graph = graph::Graph {
            seconds: self.step.as_secs_f64() * self.steps.len() as f64,
            panels: vec![
                self.panel("acknowledged per second", "#1f6fb2", |reading| reading.acknowledged),
                self.panel("delivered per second", "#2e8b57", |reading| reading.delivered),
            ],
            bands: self.away.iter().enumerate().map(band).collect(),
        };
        graph.svg()
    }
}
