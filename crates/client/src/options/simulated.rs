//! The words of `sim:`, an array of disks that takes its time.

use super::units;
use std::time::Duration;
use thalweg_mover::endpoint::simulated::ArraySpec;

/// `seek=8ms,rate=100MB,devices=4,stripe=64KiB,queue=4,host=1GB/s,size=1GiB,seed=1,scattered,devices-only`, each with a
/// default: that of `eonstor`, if this stands before all.
///
/// # Errors
/// What is wrong, in words.
pub fn parse_spec(text: &str) -> Result<ArraySpec, String> {
    let mut spec = ArraySpec::default();
    for (index, part) in text.split(',').filter(|part| !part.is_empty()).enumerate() {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let number = || value.parse::<u64>().map_err(|_| format!("`{part}`: a number"));
        let rate = || units::parse_size(value.strip_suffix("/s").unwrap_or(value));
        match key {
            // What stands behind it changes it.
            "eonstor" if value.is_empty() && index == 0 => spec = ArraySpec::eonstor(),
            "seek" => spec.seek = units::parse_time(value)?,
            "rate" => spec.bytes_per_s = rate()?,
            "devices" => spec.devices = u32::try_from(number()?).unwrap_or(u32::MAX),
            "stripe" => spec.stripe_bytes = units::parse_size(value)?,
            "queue" => spec.queue = u32::try_from(number()?).unwrap_or(u32::MAX),
            "host" => spec.host_bytes_per_s = Some(rate()?),
            "size" => spec.bytes = units::parse_size(value)?,
            "seed" => spec.seed = number()?,
            "scattered" if value.is_empty() => spec.is_scattered = true,
            "devices-only" if value.is_empty() => spec.hides_places = true,
            _ => {
                let known = "eonstor (first of all), seek=, rate=, devices=, stripe=, queue=, host=, size=, seed=, \
                             scattered, devices-only";
                return Err(format!("`{part}` is not one of {known}"));
            }
        }
    }
    spec.check()?;
    Ok(spec)
}

/// The words that [`parse_spec`] reads as the same array; what few arrays have stands there only if this one has it.
pub fn words(spec: &ArraySpec) -> String {
    // All fields by their names: one that is new does not compile until it is told.
    let ArraySpec {
        seek,
        bytes_per_s,
        devices,
        stripe_bytes,
        is_scattered,
        queue,
        host_bytes_per_s,
        hides_places,
        bytes,
        seed,
    } = spec;
    let usual = ArraySpec::default();
    let mut words = format!(
        "seek={},rate={bytes_per_s}B/s,devices={devices},stripe={stripe_bytes},size={bytes}",
        milliseconds(*seek)
    );
    if *queue != usual.queue {
        words += &format!(",queue={queue}");
    }
    if let Some(bytes_per_s) = host_bytes_per_s {
        words += &format!(",host={bytes_per_s}B/s");
    }
    if *seed != usual.seed {
        words += &format!(",seed={seed}");
    }
    if *is_scattered {
        words += ",scattered";
    }
    if *hides_places {
        words += ",devices-only";
    }
    words
}

/// A time as [`units::parse_time`] reads it, exact: `8ms`, `0.25ms`.
fn milliseconds(time: Duration) -> String {
    let (whole, nanoseconds) = (time.as_millis(), time.subsec_nanos() % 1_000_000);
    let fraction = format!("{nanoseconds:06}");
    match fraction.trim_end_matches('0') {
        "" => format!("{whole}ms"),
        fraction => format!("{whole}.{fraction}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Sizes and rates are read by way of a double: whole numbers are exact as far as this.
    const EXACT_MAX: u64 = 1 << 53;

    fn arrays() -> impl Strategy<Value = ArraySpec> {
        let disks = (
            0..=60_000_000_000_u64,
            1..=EXACT_MAX,
            1..=ArraySpec::DEVICES_MAX,
            1..=EXACT_MAX,
            1..=ArraySpec::QUEUE_MAX,
        );
        let rest =
            (proptest::option::of(1..=EXACT_MAX), 0..=EXACT_MAX, any::<u64>(), any::<bool>(), any::<bool>());
        (disks, rest).prop_map(|(disks, rest)| {
            let (seek_ns, bytes_per_s, devices, stripe_bytes, queue) = disks;
            let (host_bytes_per_s, bytes, seed, is_scattered, hides_places) = rest;
            ArraySpec {
                seek: Duration::from_nanos(seek_ns),
                bytes_per_s,
                devices,
                // Else some have more stripes than may be scattered.
                stripe_bytes: stripe_bytes.max(bytes.div_ceil(ArraySpec::STRIPES_MAX)),
                is_scattered,
                queue,
                host_bytes_per_s,
                hides_places,
                bytes,
                seed,
            }
        })
    }

    proptest! {
        #[test]
        fn an_array_is_written_in_words_that_are_read_as_the_same_array(spec in arrays()) {
            prop_assert_eq!(parse_spec(&words(&spec)), Ok(spec));
        }
    }

    #[test]
    fn what_few_arrays_have_is_told_of_those_that_have_it() {
        let usual = "seek=8ms,rate=60000000B/s,devices=1,stripe=65536,size=1073741824";
        assert_eq!(words(&ArraySpec::default()), usual);
        let odd = ArraySpec {
            seek: Duration::from_micros(250),
            seed: 7,
            is_scattered: true,
            hides_places: true,
            ..ArraySpec::eonstor()
        };
        assert_eq!(
            words(&odd),
            "seek=0.25ms,rate=48000000B/s,devices=21,stripe=65536,size=1073741824,queue=4,host=1000000000B/s,seed=7,\
             scattered,devices-only"
        );
        assert_eq!(parse_spec("eonstor,seek=250us,seed=7,scattered,devices-only"), Ok(odd));
    }
}
