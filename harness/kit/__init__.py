"""What an application uses: the thread and its handlers, and what goes with them."""
