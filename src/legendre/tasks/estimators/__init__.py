"""BoltzmannMachine, LegendreDensity and LegendreTransformer: scikit-learn's conventions without scikit-learn."""
