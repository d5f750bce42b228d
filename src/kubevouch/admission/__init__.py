"""Should it: plug-ins that change or refuse a write before it is stored."""
