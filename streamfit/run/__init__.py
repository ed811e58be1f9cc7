"""How the verbs run: engines, passes, the ordered stream, and what is kept between them."""
