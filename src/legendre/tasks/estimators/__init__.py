"""BoltzmannMachine and LegendreDensity: scikit-learn's conventions without scikit-learn."""
