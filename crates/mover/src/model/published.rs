//! Rates that were published: what instruments make, and what clouds let pass at the most. Numbers to compare with or
//! to start from; each with its source and the year that it is of, since both kinds grow old quickly.
//!
//! Of 000 Table X nothing is here: it has numbers of tasks and cores, and no rate.

use serde::Serialize;

/// What a rate is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// What an instrument makes, and somebody has to take away.
    Instrument,
    /// What a cloud's machine or its line to the outside carries at most, as its owner says.
    Cloud,
    /// What somebody measured.
    Measured,
}

/// One rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Published {
    /// Of what.
    pub name: &'static str,
    /// What kind.
    pub kind: Kind,
    /// In bits a second; of a cloud the most.
    pub bits_per_s: f64,
    /// Paper and place; of what stands in no paper that is here, who published it.
    pub source: &'static str,
    /// It is of then: when it was measured or planned for; of what providers say, and of a page without a date, when
    /// 000 looked.
    pub year: u16,
}

const GBIT: f64 = 1e9;
const GBYTE: f64 = 8e9;

/// All of them, by kind.
pub const PUBLISHED: &[Published] = &[
    instrument("APS, detectors", 480.0 * GBIT, "003 section 1", 2025),
    instrument("LCLS-II, detectors", 200.0 * GBYTE, "003 section 2.2.2", 2023),
    instrument("LCLS-II, detectors, planned", 1000.0 * GBYTE, "003 section 2.2.2", 2029),
    instrument("LCLS-II, coherent scattering, reduced", 2.0 * GBYTE, "003 Table 3", 2023),
    instrument("LCLS-II, liquid scattering, reduced", 4.0 * GBYTE, "003 Table 3", 2023),
    instrument("DELERIA (FRIB)", 40.0 * GBIT, "003 section 2.2.4", 2025),
    instrument("DELERIA (FRIB), aim", 100.0 * GBIT, "003 section 2.2.4", 2025),
    instrument("LHC experiment, before its triggers", 40_000.0 * GBYTE, "003 section 2.2.1", 2025),
    instrument("LHC experiment, kept", GBYTE, "003 section 2.2.1", 2025),
    cloud("Google Compute Engine, A3-highgpu-8g", 1000.0 * GBIT, "000 Table VII"),
    cloud("Google Compute Engine, G4-standard-384", 400.0 * GBIT, "000 Table VII"),
    cloud("Google Dedicated Interconnect, a port", 100.0 * GBIT, "000 Table VII"),
    cloud("AWS EC2, largest instances", 400.0 * GBIT, "000 Table VIII"),
    cloud("AWS Direct Connect", 100.0 * GBIT, "000 Table VIII"),
    cloud("Azure VM, largest series", 100.0 * GBIT, "000 Table IX"),
    cloud("Azure ExpressRoute", 100.0 * GBIT, "000 Table IX"),
    cloud("Azure Firewall Premium", 100.0 * GBIT, "000 Table IX"),
    measured("a VM of AWS EC2 with 10 Gbit/s", 6.0 * GBIT, "000 section III-F", 2019),
    measured("1 PB, encrypted and checked, 80 Gbit/s", 76.63 * GBIT, "000 section III-B", 2018),
    measured("zx, memory to memory, 2 x 100 Gbit/s", 155.0 * GBIT, ZX, 2016),
    measured("zx, files, encrypted, 100 Gbit/s", 70.0 * GBIT, ZX, 2016),
    measured("scp, 53 ms, 10 Gbit/s", 0.14 * GBIT, FASTERDATA, 2025),
    measured("scp with HPN, one disk, 53 ms", 0.76 * GBIT, FASTERDATA, 2025),
    measured("scp with HPN, RAID, 53 ms", 1.2 * GBIT, FASTERDATA, 2025),
    measured("GridFTP, 1 stream, RAID, 53 ms", 1.4 * GBIT, FASTERDATA, 2025),
    measured("GridFTP, 4 streams, RAID, 53 ms", 5.4 * GBIT, FASTERDATA, 2025),
    measured("GridFTP, 8 streams, RAID, 53 ms", 6.6 * GBIT, FASTERDATA, 2025),
];

/// Of the makers of 000's mover, doi:10.2172/1346534; its abstract.
const ZX: &str = "SLAC-TN-16-001";
/// Its page on tools for transfers, from disk to disk between Berkeley and Argonne; 000 refers to these pages.
const FASTERDATA: &str = "ESnet, fasterdata.es.net";

const fn instrument(name: &'static str, bits_per_s: f64, source: &'static str, year: u16) -> Published {
    Published { name, kind: Kind::Instrument, bits_per_s, source, year }
}

const fn cloud(name: &'static str, bits_per_s: f64, source: &'static str) -> Published {
    Published { name, kind: Kind::Cloud, bits_per_s, source, year: 2025 }
}

const fn measured(name: &'static str, bits_per_s: f64, source: &'static str, year: u16) -> Published {
    Published { name, kind: Kind::Measured, bits_per_s, source, year }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> f64 {
        PUBLISHED.iter().find(|one| one.name.starts_with(name)).unwrap().bits_per_s
    }

    /// 003 section 5: 2 GB/s are 64 % of 25 Gbit/s, 4 GB/s are more than it carries. 000 section III-F: 40 % lost.
    #[test]
    fn they_agree_with_what_the_papers_make_of_them() {
        assert_eq!(of("LCLS-II, coherent") / 25e9, 0.64);
        assert!(of("LCLS-II, liquid") > 25e9);
        assert_eq!(of("a VM of AWS") / 10e9, 0.6);
        assert!(PUBLISHED.iter().all(|one| one.bits_per_s > 0.0 && (2016..2030).contains(&one.year)));
    }

    /// 1000 and 400 Gbit/s of machines and ports of 100; up to 400, and 1 to 100; up to 100 of each.
    #[test]
    fn what_clouds_carry_at_most_is_what_tables_vii_to_ix_of_000_have() {
        let clouds = PUBLISHED.iter().filter(|one| one.kind == Kind::Cloud);
        let clouds: Vec<(&str, f64)> = clouds.map(|one| (one.source, one.bits_per_s / GBIT)).collect();
        let [vii, viii, ix] = ["000 Table VII", "000 Table VIII", "000 Table IX"];
        let tables = [
            (vii, 1000.0),
            (vii, 400.0),
            (vii, 100.0),
            (viii, 400.0),
            (viii, 100.0),
            (ix, 100.0),
            (ix, 100.0),
            (ix, 100.0),
        ];
        assert_eq!(clouds, tables);
    }

    /// 480 Gbit/s of the APS; 200 GB/s and more than 1 TB/s of LCLS-II, reduced 2 and 4; 40 to 100 Gbit/s of FRIB;
    /// 40 TB/s and about 1 GB/s of an experiment at the LHC.
    #[test]
    fn what_instruments_make_is_what_003_says() {
        let made = PUBLISHED.iter().filter(|one| one.kind == Kind::Instrument);
        let made: Vec<f64> = made.map(|one| one.bits_per_s / GBIT).collect();
        assert_eq!(made, [480.0, 1600.0, 8000.0, 16.0, 32.0, 40.0, 100.0, 320_000.0, 8.0]);
    }

    /// As megabytes a second they stand beside the rates: 17.5, 95, 150, 175, 675, 825.
    #[test]
    fn what_tools_did_over_53_ms_is_as_it_was_published_in_both_units() {
        let tools = PUBLISHED.iter().filter(|one| one.source == FASTERDATA);
        let tools: Vec<f64> = tools.map(|one| (one.bits_per_s / 8e5).round() / 10.0).collect();
        assert_eq!(tools, [17.5, 95.0, 150.0, 175.0, 675.0, 825.0]);
    }
}
