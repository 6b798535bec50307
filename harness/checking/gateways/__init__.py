"""`harness check gateway`: what a gateway makes of what its clients ask in one API and its upstreams answer in
another, seen from both of its ends."""
