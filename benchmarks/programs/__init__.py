"""Programs that the targets run in processes of their own: each configures a device."""
