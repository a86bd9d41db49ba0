"""The suite: `unit` (pure), `contract` (stores on several engines), `integration` (REST on real engines), `e2e`
(real processes), `confirmation` (what `quality.md` asks the system to prove)."""
