"""`harness check server`: is an endpoint right that speaks one of the APIs? What is asked, how it is judged, and the
scorecard. The witness writes every request and reads every answer as it came: no adapter and no SDK stands between."""
