"""Steps of models that learn batch by batch."""
