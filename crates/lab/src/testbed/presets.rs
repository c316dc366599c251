//! The papers' paths. The rate is what the paper's line had; that of the fast ones is more than was measured to be kept
//! ([`RATE_KEPT_BITS_PER_S`]), and `testbed up` says so.

/// A path from a paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    /// Its name on the command line.
    pub name: &'static str,
    /// Round trip time, in nanoseconds.
    pub rtt_ns: u64,
    /// Rate of the line in both directions, in bits per second.
    pub rate_bits_per_s: u64,
    /// MTU of every device, in bytes: the paper's where it names one.
    pub mtu_bytes: u32,
    /// Where it comes from.
    pub source: &'static str,
}

/// MTU of a testbed that asks for none.
pub const MTU_BYTES: u32 = 1500;

/// The widest limit of a rate that was measured to be kept, in bits per second: by the committed result of `thalweg
/// bench path` (docs/guide/testbed.md). `cargo xtask test` fails for another number. One thread carries each direction:
/// without any limit 32 to 52 Gbit/s (docs/decisions/0006-testbed-wire.md), which says nothing of a limit.
pub const RATE_KEPT_BITS_PER_S: u64 = 9_600_000_000;

const MS: u64 = 1_000_000;
const GBIT: u64 = 1_000_000_000;

/// All of them.
pub const PRESETS: &[Preset] = &[
    preset("metro", 10 * MS, 100 * GBIT, "000 Table IV: metro, at its upper end"),
    preset("interstate", 50 * MS, 100 * GBIT, "000 Table IV: interstate, at its upper end"),
    preset("continental", 100 * MS, 100 * GBIT, "000 Table IV: continental, at its upper end"),
    preset("production-74ms", 74 * MS, 100 * GBIT, "000 Figs 4 to 6: the production trial"),
    preset("petabyte", 6 * MS, 100 * GBIT, "001 section 2: a petabyte in a day"),
    Preset {
        mtu_bytes: 9000,
        ..preset("streaming", 16 * MS, 25 * GBIT, "003 Table 2: congestion experiment")
    },
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
    Preset { name, rtt_ns, rate_bits_per_s, mtu_bytes: MTU_BYTES, source }
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

    /// As `doctor` says of it.
    #[test]
    fn the_continental_path_is_wider_than_what_is_kept() {
        let continental = find("continental").unwrap();
        assert_eq!(continental.rate_bits_per_s, 100 * GBIT);
        assert!(continental.rate_bits_per_s > RATE_KEPT_BITS_PER_S);
    }

    #[test]
    fn the_usn_loops_are_those_of_the_paper() {
        let rtts: Vec<u64> =
            PRESETS.iter().filter(|p| p.name.starts_with("usn")).map(|p| p.rtt_ns / 1000).collect();
        assert_eq!(rtts, [280, 26_800, 128_000, 163_000]);
        assert!(find("metro").is_some() && find("folklore").is_none());
    }

    /// 003 Table 2, as `bench congest` has it.
    #[test]
    fn the_streaming_bed_has_jumbo_frames_and_no_other_paper_names_them() {
        let jumbo: Vec<&str> = PRESETS.iter().filter(|p| p.mtu_bytes == 9000).map(|p| p.name).collect();
        assert_eq!(jumbo, ["streaming"]);
        assert!(PRESETS.iter().all(|p| p.mtu_bytes == 9000 || p.mtu_bytes == MTU_BYTES));
    }
}
