//! Student's t: how far a value may be off whose spread is itself known from a few observations only.

/// The quantile of Student's t at which the standard normal has `z`, for so many degrees of freedom, which need not be
/// whole. M. Abramowitz, I. A. Stegun, *Handbook of Mathematical Functions*, 26.7.5. Within 1 % of the tables for 3
/// degrees or more, up to the 0.99 quantile; with infinitely many it is `z`.
pub fn quantile(z: f64, freedom: f64) -> f64 {
    let [z3, z5, z7, z9] = [3, 5, 7, 9].map(|power| z.powi(power));
    let terms = [
        (z3 + z) / 4.0,
        (5.0 * z5 + 16.0 * z3 + 3.0 * z) / 96.0,
        (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * z) / 384.0,
        (79.0 * z9 + 776.0 * z7 + 1482.0 * z5 - 1920.0 * z3 - 945.0 * z) / 92_160.0,
    ];
    terms.iter().zip(1..).fold(z, |sum, (term, power)| sum + term / freedom.powi(power))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::is_near;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        let (z_975, z_99) = (1.959_964, 2.326_348);
        for (freedom, at_975, at_99) in
            [(3.0, 3.182, 4.541), (4.0, 2.776, 3.747), (8.0, 2.306, 2.896), (30.0, 2.042, 2.457)]
        {
            assert!(is_near(quantile(z_975, freedom), at_975, 0.01), "{freedom}");
            assert!(is_near(quantile(z_99, freedom), at_99, 0.01), "{freedom}");
        }
        assert!(is_near(quantile(z_975, 4.0), 2.776, 1e-3) && is_near(quantile(z_99, 30.0), 2.457, 1e-3));
        assert_eq!(quantile(z_99, f64::INFINITY), z_99);
        assert_eq!(quantile(-z_99, 5.0), -quantile(z_99, 5.0));
    }
}
