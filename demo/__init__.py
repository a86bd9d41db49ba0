"""The demo: five people with chats, and a login as one of them without a phone.

Embedded mode only: `config.wiring` refuses to build it elsewhere, and its URLs are not routed there. Only the demo's
people can log in through it.
"""
