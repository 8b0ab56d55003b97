"""equipoise: fair supervised learning for any sensitive attribute."""
