//! The papers' paths. The rate is what the paper's line had; two cores of today do not fill the fast ones, and the
//! wire's own cost says so.

/// A path from a paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    /// Its name on the command line.
    pub name: &'static str,
    /// Round trip time, in nanoseconds.
    pub rtt_ns: u64,
    /// Rate of the line in both directions, in bits per second.
    pub rate_bits_per_s: u64,
    /// Where it comes from.
    pub source: &'static str,
}

const MS: u64 = 1_000_000;
const GBIT: u64 = 1_000_000_000;

/// All of them.
pub const PRESETS: &[Preset] = &[
    preset("metro", 10 * MS, 100 * GBIT, "000 Table IV: metro, at its upper end"),
    preset("interstate", 50 * MS, 100 * GBIT, "000 Table IV: interstate, at its upper end"),
    preset("continental", 100 * MS, 100 * GBIT, "000 Table IV: continental, at its upper end"),
    preset("production-74ms", 74 * MS, 100 * GBIT, "000 Figs 4 to 6: the production trial"),
    preset("petabyte", 6 * MS, 100 * GBIT, "001 section 2: a petabyte in a day"),
    preset("streaming", 16 * MS, 25 * GBIT, "003 Table 2: congestion experiment"),
    preset("usn-0.28ms", 280_000, 9_600_000_000, "004 Table I: local loop, OC192"),
    preset("usn-26.8ms", 26_800_000, 9_600_000_000, "004 Table I: loop, OC192"),
    preset("usn-128ms", 128 * MS, 9_600_000_000, "004 Table I: loop, OC192"),
    preset("usn-163ms", 163 * MS, 9_600_000_000, "004 Table I: loop, OC192"),
];

/// The one of this name.
pub fn find(name: &str) -> Option<Preset> {
    PRESETS.iter().copied().find(|preset| preset.name == name)
}

const fn preset(name: &'static str, rtt_ns: u64, rate_bits_per_s: u64, source: &'static str) -> Preset {
    Preset { name, rtt_ns, rate_bits_per_s, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Round trip times in microseconds and rates in Gbit/s.
    #[test]
    fn each_path_of_the_papers_has_a_name_and_says_where_it_is_from() {
        let all: Vec<(u64, f64, &str)> = PRESETS
            .iter()
            .map(|p| (p.rtt_ns / 1000, p.rate_bits_per_s as f64 / 1e9, &p.source[..3]))
            .collect();
        let papers = [
            (10_000, 100.0, "000"),
            (50_000, 100.0, "000"),
            (100_000, 100.0, "000"),
            (74_000, 100.0, "000"),
            (6_000, 100.0, "001"),
            (16_000, 25.0, "003"),
            (280, 9.6, "004"),
            (26_800, 9.6, "004"),
            (128_000, 9.6, "004"),
            (163_000, 9.6, "004"),
        ];
        assert_eq!(all, papers);
    }

    #[test]
    fn the_usn_loops_are_those_of_the_paper() {
        let rtts: Vec<u64> =
            PRESETS.iter().filter(|p| p.name.starts_with("usn")).map(|p| p.rtt_ns / 1000).collect();
        assert_eq!(rtts, [280, 26_800, 128_000, 163_000]);
        assert!(find("metro").is_some() && find("folklore").is_none());
    }
}
