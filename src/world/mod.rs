//! The one seam to files, environment, clock and randomness.
